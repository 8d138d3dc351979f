# frozen_string_literal: true

require_relative "test_helper"
require "minitest/mock"
StockHooks.load_all

# The stock hooks as plain objects, against a shadow copy.
class TestStock < Minitest::Test
  SIZE = 4 << 20
  ZEROES = ("\0".b * SIZE).freeze

  # Random operations on both; Kernel#rand has minitest's seed.
  def exercise(disk, steps: 300, operations: %i[read write discard write_zeroes])
    shadow = ZEROES.dup
    random = Random.new(rand(1 << 16))
    steps.times do
      offset = random.rand(SIZE / 512) * 512
      length = [random.rand(1..(random.rand < 0.5 ? 3072 : 16)) * 512, SIZE - offset].min
      apply(operations.sample(random: random), disk, shadow, offset, length, random)
    end
    (0...SIZE).step(SIZE / 8) { |at| assert_same_bytes shadow.byteslice(at, SIZE / 8), disk.read(at, SIZE / 8) }
  end

  def apply(operation, disk, shadow, offset, length, random)
    case operation
    when :read then assert_same_bytes shadow.byteslice(offset, length), disk.read(offset, length)
    when :write
      data = random.bytes(length)
      assert_equal length, disk.write(offset, data.dup)
      shadow[offset, length] = data
    else
      disk.public_send(operation, offset, length)
      shadow[offset, length] = ZEROES.byteslice(0, length)
    end
  end

  # assert_equal would print megabytes.
  def assert_same_bytes(expected, actual)
    assert_equal expected.bytesize, actual.bytesize
    assert expected == actual.b, "the data differs"
  end

  def test_memory = exercise(MemoryDisk.new(size: SIZE))

  def with_image(size)
    Dir.mktmpdir do |directory|
      path = File.join(directory, "image")
      File.write(path, "")
      File.truncate(path, size)
      yield path
    end
  end

  # Without the worker's fallocate there is no discard.
  def test_file
    with_image(SIZE) { |path| exercise(FileDisk.new(path: path), operations: %i[read write]) }
  end

  def test_file_shorter_than_the_disk
    with_image(0) do |path|
      disk = FileDisk.new(path: path, size: SIZE)
      assert_same_bytes ZEROES.byteslice(0, 4096), disk.read(SIZE - 4096, 4096)
      exercise(disk, operations: %i[read write])
    end
  end

  def test_file_has_the_blocks_of_its_block_device
    with_image(SIZE + 512) do |path|
      assert_equal 512, FileDisk.new(path: path).logical_block_size
      UBLK::Sys.stub(:block_size, 4096) do
        assert_equal [4096, SIZE], FileDisk.new(path: path, size: SIZE).then { |disk| [disk.logical_block_size, disk.size] }
        assert_includes assert_raises(ArgumentError) { FileDisk.new(path: path) }.message, "a multiple of 4096"
      end
    end
  end

  # As the service does it.
  def resize(disk, bytes)
    assert_equal bytes, UBLK::Runtime.resize(disk, bytes)
    assert_equal bytes, disk.size
  end

  def test_file_resize
    with_image(SIZE) do |path|
      disk = FileDisk.new(path: path)
      [SIZE * 2, SIZE, SIZE * 3].each do |bytes|
        resize(disk, bytes)
        assert_equal bytes, File.size(path)
      end
    end
  end

  # It may be of something else, or for a later disk.
  def test_file_resize_leaves_what_is_behind_the_disk
    with_image(SIZE * 4) do |path|
      File.binwrite(path, "behind", SIZE * 3)
      disk = FileDisk.new(path: path, size: SIZE)
      [SIZE * 2, SIZE, SIZE / 2].each { |bytes| resize(disk, bytes) }
      assert_equal [SIZE * 4, "behind"], [File.size(path), File.binread(path, 6, SIZE * 3)]
      [SIZE * 4, SIZE * 5].each { |bytes| resize(disk, bytes) }
      assert_equal [SIZE * 5, "behind"], [File.size(path), File.binread(path, 6, SIZE * 3)]
    end
  end

  def test_file_resize_of_an_image_that_is_shorter
    with_image(SIZE / 2) do |path|
      disk = FileDisk.new(path: path, size: SIZE * 2)
      resize(disk, SIZE)
      assert_equal SIZE / 2, File.size(path)
      resize(disk, SIZE * 2)
      assert_equal SIZE * 2, File.size(path)
    end
  end

  def test_file_write_goes_on_after_a_short_one
    with_image(SIZE) do |path|
      disk = FileDisk.new(path: path)
      file = disk.instance_variable_get(:@file)
      short = Object.new
      short.define_singleton_method(:pwrite) { |data, offset| file.pwrite(data.byteslice(0, 1000), offset) }
      short.define_singleton_method(:pread) { |length, offset| file.pread([length, 1000].min, offset) }
      disk.instance_variable_set(:@file, short)
      data = Random.bytes(8192)
      assert_equal 8192, disk.write(4096, data)
      assert_same_bytes data, disk.read(4096, 8192)
    end
  end

  def test_null
    disk = NullDisk.new(size: 1 << 40)
    [512, 4096, 512 * 1024, 2 << 20].each { |length| assert_same_bytes "\0" * length, disk.read(0, length) }
    assert_same disk.read(0, 4096), disk.read(8192, 4096)
    assert_equal 4096, disk.write(0, "x" * 4096)
  end
end
