# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"

ROOT = File.expand_path("../..", __dir__)
$LOAD_PATH.unshift(File.join(ROOT, "hooks/lib"))
require "ublk/runtime"

# The stock hooks, each loaded once. They are scripts of their own names and define top-level classes.
module StockHooks
  def self.path(name) = File.join(ROOT, "hooks/stock/#{name}.rb")

  def self.load_all = %w[memory file null].each { |name| Kernel.load(path(name)) }
end

# A disk in a String, and random operations on a disk and a shadow copy of it.
class PlainDisk < UBLK::Target
  attr_reader :data

  def initialize(size:)
    super
    @data = "\0".b * size
  end

  def read(offset, length) = @data.byteslice(offset, length)

  def write(offset, data)
    @data[offset, data.bytesize] = data
    data.bytesize
  end
end

# The same with holes.
class HoleyDisk < PlainDisk
  attr_reader :unmaps

  def discard(offset, length) = write_zeroes(offset, length)

  def write_zeroes(offset, length, unmap: true)
    (@unmaps ||= []) << unmap
    write(offset, "\0".b * length)
    0
  end
end

module Exercise
  SIZE = 1 << 20

  # Kernel#rand has minitest's seed.
  def exercise(disk, shadow, steps: 400, operations: %i[read write discard write_zeroes], seed: rand(1 << 16))
    random = Random.new(seed)
    steps.times do
      offset = random.rand(shadow.bytesize / 512) * 512
      length = [random.rand(1..(random.rand < 0.2 ? 300 : 24)) * 512, shadow.bytesize - offset].min
      step(operations.sample(random: random), disk, shadow, offset, length, random)
    end
    assert_disk shadow, disk
  end

  def step(operation, disk, shadow, offset, length, random)
    case operation
    when :read then assert_same_bytes shadow.byteslice(offset, length), disk.read(offset, length)
    when :write
      data = random.bytes(length)
      assert_equal length, disk.write(offset, data.dup)
      shadow[offset, length] = data
    else
      disk.public_send(operation, offset, length)
      shadow[offset, length] = "\0".b * length
    end
  end

  def assert_disk(shadow, disk)
    (0...shadow.bytesize).step(65_536) do |at|
      length = [65_536, shadow.bytesize - at].min
      assert_same_bytes shadow.byteslice(at, length), disk.read(at, length)
    end
  end

  # assert_equal would print megabytes.
  def assert_same_bytes(expected, actual)
    assert_equal expected.bytesize, actual.bytesize
    assert expected == actual.b, "the data differs"
  end
end
