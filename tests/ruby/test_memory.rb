# frozen_string_literal: true

require_relative "test_helper"

# UBLK::Memory: the one of C where the extension is in the load path, the one of Ruby where it is not.
class TestMemory < Minitest::Test
  include Exercise

  MIB = 1 << 20

  # What Exercise takes for a disk.
  class Disk
    def initialize(memory) = @memory = memory
    def read(offset, length) = @memory.read(offset, length)
    def write(offset, data) = @memory.write(offset, data)
    def discard(offset, length) = @memory.zero(offset, length)
    def write_zeroes(offset, length) = @memory.zero(offset, length)
  end

  def test_against_a_shadow
    exercise(Disk.new(UBLK::Memory.new(SIZE)), "\0".b * SIZE)
  end

  # Any byte, not only blocks.
  def test_bytes
    memory = UBLK::Memory.new(3 * MIB + 1)
    assert_equal [3 * MIB + 1, "data"], [memory.size, memory.name]
    assert_equal 5, memory.write(MIB - 2, "h\u00e9llo"[0, 4])
    assert_equal "\0h\u00e9ll\0".b, memory.read(MIB - 3, 7)
    assert_equal Encoding::BINARY, memory.read(0, 1).encoding
    assert_equal 0, memory.zero(MIB - 1, 2)
    assert_equal "h\0\0ll".b, memory.read(MIB - 2, 5)
    assert_equal 3 * MIB + 1, memory.write(0, "x" * (3 * MIB + 1))
    assert_equal "x", memory.read(3 * MIB, 1)
    assert_equal "", memory.read(3 * MIB + 1, 0)
    assert_equal 0, memory.zero(3 * MIB + 1, 0)
  end

  def test_what_is_read_is_the_callers
    memory = UBLK::Memory.new(4096)
    first = memory.read(0, 4096)
    first.setbyte(0, 1)
    memory.write(1, "a".dup.tap { |data| data.freeze })
    assert_equal "\0a", memory.read(0, 2)
    assert_equal "\1\0", first.byteslice(0, 2)
  end

  def test_bounds
    memory = UBLK::Memory.new(1000)
    memory.write(0, "x" * 1000)
    [[0, 1001], [1000, 1], [1001, 0], [-1, 1], [0, -1], [1 << 63, 1], [(1 << 64) - 1, 2], [1 << 64, 0], [0, 1 << 80]].each do |range|
      assert_raises(IndexError, range.inspect) { memory.read(*range) }
      assert_raises(IndexError, range.inspect) { memory.zero(*range) }
    end
    [[-1, ""], [1, "y" * 1000], [1001, ""], [1 << 64, "y"]].each do |arguments|
      assert_raises(IndexError, arguments.inspect) { memory.write(*arguments) }
    end
    [["0", 1], [0, nil], [0.5, 1]].each { |range| assert_raises(TypeError, range.inspect) { memory.read(*range) } }
    assert_equal "x" * 1000, memory.read(0, 1000)
    error = assert_raises(IndexError) { memory.read(990, 20) }
    assert_equal 'IndexError: 20 bytes at 990 are outside of the memory "data", which has 1000', "#{error.class}: #{error.message}"
  end

  def test_sizes_and_names
    [0, -1, 1 << 62, 1 << 80].each { |size| assert_raises(ArgumentError, size.to_s) { UBLK::Memory.new(size) } }
    ["1", nil, 1.5].each { |size| assert_raises(TypeError, size.inspect) { UBLK::Memory.new(size) } }
    ["", "A", "a b", "a/b", "a" * 33, "a\n"].each { |name| assert_raises(ArgumentError, name.inspect) { UBLK::Memory.new(1, name: name) } }
    assert_raises(ArgumentError) { UBLK::Memory.new(1, nam: "a") }
    assert_equal %w[index a-b_9], [UBLK::Memory.new(1, name: :index), UBLK::Memory.new(1, name: "a-b_9")].map(&:name)
    # In a program of its own any number of them, each of its own.
    one, other = Array.new(2) { UBLK::Memory.new(10) }
    one.write(0, "one")
    assert_equal "\0\0\0", other.read(0, 3)
    assert_includes one.inspect, '"data" 10'
  end

  def test_sparse
    memory = UBLK::Memory.new(1 << 40)
    memory.write((1 << 40) - 3, "end")
    assert_equal "\0end", memory.read((1 << 40) - 4, 4)
    before = File.read("/proc/self/statm").split[1].to_i
    (0...100).each { |i| memory.read(i << 30, MIB).clear }
    assert_operator File.read("/proc/self/statm").split[1].to_i - before, :<, 16_384, "reading holes gave them memory"
  end

  def test_threads
    memory = UBLK::Memory.new(8 * MIB)
    threads = Array.new(4) do |n|
      Thread.new do
        data = n.to_s * MIB
        20.times do
          memory.write(2 * n * MIB, data)
          raise "#{n}: torn" unless memory.read(2 * n * MIB, MIB) == data

          memory.zero(2 * n * MIB, MIB)
        end
      end
    end
    threads.each(&:join)
    assert_equal "\0" * MIB, memory.read(6 * MIB, MIB)
  end

  def test_no_copies
    memory = UBLK::Memory.new(10)
    return unless memory.method(:read).source_location.nil? # the one of C

    assert_raises(NoMethodError) { memory.dup }
    assert_raises(ArgumentError) { UBLK::Memory.allocate.read(0, 1) }
    assert_raises(ArgumentError) { memory.send(:initialize, 10) }
  end
end
