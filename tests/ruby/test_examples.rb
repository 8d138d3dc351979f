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
      assert_equal 4096, disk.read(SIZE / 2 - 4096, 8192) # not all of it, and no String: EIO
      assert_equal 4096, disk.read(SIZE / 2 - 4096, 4096).bytesize
    end
  end

  def test_tracing
    disk = Examples.disk("tracing", "size=1M")
    _, said = capture_io { exercise(disk, zeroes, steps: 20, operations: [:write]) }
    assert_match(/^write \d+\+\d+$/, said)
    _, said = capture_io do
      disk.discard(512, 1024)
      disk.write_zeroes(0, 512)
      disk.flush
    end
    assert_equal "discard 512+1024\nwrite_zeroes 0+512\nflush\n", said
  end

  # As the hook's own layers do it: what is below is not changed.
  def test_layers_say_what_the_disk_says
    disk = Examples.stack("tracing") && Tracing.new(PlainDisk.new(size: SIZE))
    refute UBLK::Abilities.supports?(disk, :discard)
    assert UBLK::Abilities.supports?(Examples.disk("tracing", "size=1M"), :discard)
  end

  def test_fault_injection
    disk = Examples.disk("fault_injection", "size=1M", "bad_at=64K", "bad_length=4K")
    eio = -Errno::EIO::Errno
    [[64 << 10, 512], [(64 << 10) - 512, 1024], [(68 << 10) - 512, 512], [0, 1 << 20]].each do |offset, length|
      assert_equal eio, disk.read(offset, length)
      assert_equal eio, disk.write(offset, "x".b * length)
    end
    [[(64 << 10) - 512, 512], [68 << 10, 512]].each { |offset, length| assert_equal length, disk.write(offset, "x".b * length) }
    assert_equal 0, disk.flush
  end

  # In chunks of 64 KiB.
  def test_quota
    in_directory do |directory|
      make = -> { Examples.disk("quota", "path=#{image(directory)}", "limit=128K", "state=#{directory}") }
      disk = make.call
      assert_equal 1024, disk.write((64 << 10) - 512, "x".b * 1024)
      assert_equal (-Errno::ENOSPC::Errno), disk.write(1 << 19, "x".b * 512)
      assert_equal 512, disk.write(0, "x".b * 512)
      assert_equal (-Errno::ENOSPC::Errno), make.call.write(1 << 19, "x".b * 512)
    end
  end

  def test_quota_is_given_back
    Examples.stack("quota")
    in_directory do |directory|
      disk = Quota.new(HoleyDisk.new(size: SIZE), limit: 128 << 10, state: directory)
      disk.write(0, "x".b * (128 << 10))
      disk.discard(512, 127 << 10)
      assert_equal (-Errno::ENOSPC::Errno), disk.write(1 << 19, "x".b * 512)
      disk.discard(0, 64 << 10)
      assert_equal 512, disk.write(1 << 19, "x".b * 512)
      assert_equal (-Errno::ENOSPC::Errno), disk.write(1 << 18, "x".b * 512)
    end
  end

  def test_quota_that_could_not_discard_gives_nothing_back
    Examples.stack("quota")
    refusing = Class.new(PlainDisk) { def discard(_offset, _length) = -Errno::EIO::Errno }
    in_directory do |directory|
      disk = Quota.new(refusing.new(size: SIZE), limit: 64 << 10, state: directory)
      disk.write(0, "x".b * 512)
      assert_equal (-Errno::EIO::Errno), disk.discard(0, 64 << 10)
      assert_equal (-Errno::ENOSPC::Errno), disk.write(1 << 19, "x".b * 512)
    end
  end
end
