# frozen_string_literal: true

require_relative "examples_helper"

# The scripts of examples/ that are a page long; the others have tests of their own.
class TestExamples < Minitest::Test
  include Exercise

  def zeroes = "\0".b * SIZE

  def in_directory(&block) = Dir.mktmpdir(&block)

  def image(directory, size = SIZE)
    File.join(directory, "image").tap { |path| File.binwrite(path, "\0" * size) }
  end

  def test_ram_disk = exercise(Examples.disk("ram_disk", "size=1M"), zeroes)

  # A slice that shared its memory with the disk would make the next write copy the disk.
  def test_ram_disk_slices_are_copies
    require "objspace"
    disk = Examples.disk("ram_disk", "size=1M")
    assert_operator ObjectSpace.memsize_of(disk.read(SIZE - 4096, 4096)), :>, 4096
  end

  def test_file_disk
    in_directory do |directory|
      exercise(Examples.disk("file_disk", "path=#{image(directory)}"), zeroes, operations: %i[read write])
    end
  end

  # Reads and writes of which the system does only a part.
  def test_file_disk_goes_on_after_a_short_one
    in_directory do |directory|
      disk = Examples.disk("file_disk", "path=#{image(directory)}")
      file = disk.instance_variable_get(:@file)
      short = Object.new
      short.define_singleton_method(:pwrite) { |data, offset| file.pwrite(data.byteslice(0, 1000), offset) }
      short.define_singleton_method(:pread) { |length, offset| file.pread([length, 1000].min, offset) }
      disk.instance_variable_set(:@file, short)
      exercise(disk, zeroes, steps: 50, operations: %i[read write])
    end
  end

  def test_file_disk_that_was_cut_off
    in_directory do |directory|
      path = image(directory)
      disk = Examples.disk("file_disk", "path=#{path}")
      File.truncate(path, SIZE / 2)
      assert_raises(EOFError) { disk.read(SIZE / 2 - 4096, 8192) }
      assert_equal 4096, disk.read(SIZE / 2 - 4096, 4096).bytesize
    end
  end
end
