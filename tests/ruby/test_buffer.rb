# frozen_string_literal: true

require "tempfile"

require_relative "test_helper"

# UBLK::Buffer: the one of C where the extension is in the load path, the one of Ruby where it is not. What only requests of
# a worker show is in unit/test-hook-buffer.c.
class TestBuffer < Minitest::Test
  include Exercise

  # What Exercise wants of a disk beside.
  module Zeroes
    def discard(offset, length) = write(offset, "\0".b * length) && 0
    def write_zeroes(offset, length) = discard(offset, length)
  end

  # Disks that have no String form.
  class Disk < UBLK::Target
    include Zeroes

    def initialize(size:)
      super
      @data = "\0".b * size
    end

    def read_into(buffer, offset) = buffer.copy_from(@data, offset)
    def write_from(buffer, offset) = buffer.copy_to(@data, offset)
  end

  class FileDisk < UBLK::Target
    include Zeroes

    def initialize(file, size)
      super(size: size)
      @file = file
    end

    def read_into(buffer, offset)
      done = buffer.pread(@file, offset)
      buffer.fill(0, done)
      buffer.size
    end

    def write_from(buffer, offset) = buffer.pwrite(@file, offset)
  end

  class MemoryDisk < UBLK::Target
    include Zeroes

    def initialize(size)
      super(size: size)
      @memory = UBLK::Memory.new(size)
    end

    def read_into(buffer, offset) = buffer.copy_from(@memory, offset)
    def write_from(buffer, offset) = buffer.copy_to(@memory, offset)
  end

  # Through Target#read and Target#write.
  def test_against_a_shadow
    exercise(Disk.new(size: SIZE), "\0".b * SIZE)
    exercise(MemoryDisk.new(SIZE), "\0".b * SIZE)
    Tempfile.create { |file| exercise(FileDisk.new(file, SIZE), "\0".b * SIZE) }
  end

  # A layer that wants Strings round a target that has none, and the other way round.
  def test_below_layers
    [UBLK::Layers::Cache, UBLK::Layers::Verify, UBLK::Layer, UBLK::Around].each do |layer|
      exercise(layer.new(Disk.new(size: SIZE)), "\0".b * SIZE, steps: 200)
    end
    layer = UBLK::Around.new(PlainDisk.new(size: SIZE))
    assert_equal 4096, UBLK::Buffer.for_write("a" * 4096) { |buffer| layer.write_from(buffer, 8192) }
    assert_equal "\0".b * 512 + "a" * 512, UBLK::Buffer.for_read(1024) { |buffer| layer.read_into(buffer, 8192 - 512) }
  end

  def test_bytes
    read = UBLK::Buffer.for_read(8) do |buffer|
      assert_equal [8, 8], [buffer.size, buffer.fill(120)]
      assert_equal 2, buffer.set("h\u00e9"[1], 1)
      assert_equal 3, buffer.fill(0, 4, 3)
      assert_equal "x\xC3\xA9x\0\0\0x".b, buffer.get
      assert_equal [Encoding::BINARY, "\0x".b], [buffer.get.encoding, buffer.get(6)]
      assert_equal [true, false, true, false], [buffer.zero?(4, 3), buffer.zero?(4), buffer.zero?(8), buffer.zero?]
      assert_equal 2, buffer.copy_from("0123456789", 8, 0, 2)
      assert_equal 1, buffer.copy_from("abc", 2, 7)
      target = +"\u00e9.........."
      assert_equal [3, "\u00e9.\xA9x\0......"], [buffer.copy_to(target, 3, 2, 3), target]
      assert_equal 0, buffer.set("", 8)
      8
    end
    assert_equal "89\xA9x\0\0\0c".b, read
    assert_equal Encoding::BINARY, read.encoding
  end

  # [exception, message, call]
  WRONG = [
    [RangeError, "1 bytes at 8 are outside of the buffer, which has 8", ->(b) { b.get(8, 1) }],
    [RangeError, "9 bytes at 0 are outside of the buffer, which has 8", ->(b) { b.get(0, 9) }],
    [RangeError, "0 bytes at 9 are outside of the buffer, which has 8", ->(b) { b.get(9) }],
    [RangeError, "offset must not be negative, and is -1", ->(b) { b.get(-1) }],
    [RangeError, "length must not be negative, and is -1", ->(b) { b.get(0, -1) }],
    [RangeError, "2 bytes at 7 are outside of the buffer, which has 8", ->(b) { b.set("ab", 7) }],
    [RangeError, "byte must be from 0 to 255, and is 256", ->(b) { b.fill(256) }],
    [RangeError, "byte must be from 0 to 255, and is -1", ->(b) { b.fill(-1) }],
    [RangeError, "8 bytes at 1 are outside of the source, which has 8", ->(b) { b.copy_from("12345678", 1) }],
    [RangeError, "8 bytes at 0 are outside of the target, which has 7", ->(b) { b.copy_to(+"1234567") }],
    [RangeError, "1 bytes at 8 are outside of the buffer, which has 8", ->(b) { b.copy_to(+"1234567", 0, 8, 1) }],
    [IndexError, "8 bytes at 1 are outside of the memory \"data\", which has 8", ->(b) { b.copy_from(UBLK::Memory.new(8), 1) }],
    [TypeError, "offset must be an Integer of bytes, not String", ->(b) { b.get("1") }],
    [TypeError, "length must be an Integer of bytes, not NilClass", ->(b) { b.get(1, nil) }],
    [TypeError, "byte must be an Integer from 0 to 255, not Float", ->(b) { b.fill(1.0) }],
    [FrozenError, "can't modify frozen String: \"12345678\"", ->(b) { b.copy_to("12345678") }],
    [ArgumentError, nil, ->(b) { b.set }],
    [ArgumentError, nil, ->(b) { b.get(1, 2, 3) }],
    [ArgumentError, nil, ->(b) { b.pread($stdin) }]
  ].freeze

  def test_bounds
    UBLK::Buffer.for_read(8) do |buffer|
      buffer.fill(7)
      WRONG.each do |error, message, call|
        raised = assert_raises(error, message) { call.call(buffer) }
        assert_equal message, raised.message if message
      end
      assert_equal "\7" * 8, buffer.get
    end
  end

  def test_large_numbers
    UBLK::Buffer.for_read(8) do |buffer|
      [1 << 63, (1 << 64) - 1, 1 << 64, 1 << 100, -1 << 100].each do |number|
        assert_raises(RangeError) { buffer.get(number) }
        assert_raises(RangeError) { buffer.get(0, number) }
        assert_raises(RangeError) { buffer.get(number, number) }
        assert_raises(RangeError) { buffer.fill(number) }
        assert_raises(RangeError) { buffer.copy_from("12345678", number) }
      end
    end
  end

  # Of a buffer of no request.
  def test_lengths
    { -1 => "length must not be negative, and is -1", (1 << 63) => "length must be below 2^63, and is 9223372036854775808",
      (1 << 64) - 4096 => nil, (1 << 64) - 1 => nil, 1 << 64 => nil, -1 << 70 => nil }.each do |length, message|
      error = assert_raises(RangeError, length.to_s) { UBLK::Buffer.for_read(length) { |buffer| flunk("a buffer of #{buffer.size}") } }
      assert_equal message, error.message if message
    end
    assert_raises(TypeError) { UBLK::Buffer.for_read("8") { flunk } }
    assert_raises(NoMemoryError, ArgumentError) { UBLK::Buffer.for_read(1 << 62) { flunk } }
  end

  def test_files
    Tempfile.create do |file|
      assert_equal 8, UBLK::Buffer.for_write("12345678") { |buffer| buffer.pwrite(file, 3) }
      assert_equal 2, UBLK::Buffer.for_write("12345678") { |buffer| buffer.pwrite(file, 0, 6, 2) }
      assert_equal "78\0" + "12345678", File.binread(file.path)
      read = UBLK::Buffer.for_read(6) do |buffer|
        assert_equal 3, buffer.pread(file, 8)
        assert_equal 0, buffer.pread(file, 11)
        assert_equal 1, buffer.pread(file, 0, 5)
        buffer.fill(45, 3, 2)
        6
      end
      assert_equal "678--7", read
      file.close
      UBLK::Buffer.for_read(6) { |buffer| assert_raises(IOError) { buffer.pread(file, 0) } }
    end
  end

  def test_writes_are_not_changed
    data = +"12345678"
    UBLK::Buffer.for_write(data) do |buffer|
      [-> { buffer.set("x") }, -> { buffer.fill }, -> { buffer.copy_from("87654321") }].each do |change|
        assert_equal "the bytes of a write are the client's: they can't be changed", assert_raises(UBLK::BufferError, &change).message
      end
      assert_equal "12345678", buffer.get
    end
    assert_equal "12345678", data
  end

  def test_after_its_request
    kept = nil
    [-> { UBLK::Buffer.for_read(4) { |buffer| (kept = buffer) && 4 } },
     -> { UBLK::Buffer.for_write("1234") { |buffer| kept = buffer } },
     -> { UBLK::Buffer.for_read(4) { |buffer| (kept = buffer) && raise("on its way") } rescue nil },
     -> { catch(:out) { UBLK::Buffer.for_read(4) { |buffer| (kept = buffer) && throw(:out) } } }].each do |request|
      request.call
      [-> { kept.size }, -> { kept.get }, -> { kept.set("a") }, -> { kept.fill }, -> { kept.zero? }, -> { kept.copy_from("1234") },
       -> { kept.copy_to(+"1234") }, -> { kept.pread($stdin, 0) }, -> { kept.pwrite($stdout, 0) }].each do |call|
        assert_raises(UBLK::BufferError, &call)
      end
      assert_equal "#<UBLK::Buffer of an answered request>", kept.inspect
    end
  end

  def test_what_a_block_returns
    assert_equal(-5, UBLK::Buffer.for_read(4) { -5 })
    assert_equal(3, UBLK::Buffer.for_read(4) { 3 })
    assert_nil(UBLK::Buffer.for_read(4) { nil })
    assert_equal("\0" * 4, UBLK::Buffer.for_read(4) { 4 })
    assert_equal("", UBLK::Buffer.for_read(0) { 0 })
    assert_equal(-5, UBLK::Buffer.for_write("1234") { -5 })
    assert_equal(-5, Disk.new(size: 512).tap { |disk| def disk.read_into(*) = -5 }.read(0, 512))
  end

  def test_a_target_without_either_form
    bare = UBLK::Target.new(size: 512)
    assert_raises(NotImplementedError) { bare.read(0, 512) }
    assert_raises(NotImplementedError) { bare.write(0, "a" * 512) }
    assert_raises(NotImplementedError) { UBLK::Buffer.for_read(512) { |buffer| bare.read_into(buffer, 0) } }
    assert_equal [false, false], %i[read write].map { |operation| UBLK::Abilities.supports?(bare, operation) }
    assert_equal [true, true], %i[read write].map { |operation| UBLK::Abilities.supports?(Disk.new(size: 512), operation) }
  end

  def test_it_is_not_made_by_hand
    assert_raises(NoMethodError) { UBLK::Buffer.new }
    UBLK::Buffer.for_read(1) do |buffer|
      %i[dup clone freeze].each { |name| assert_raises(NoMethodError, TypeError) { buffer.send(name) } }
      assert_equal "#<UBLK::Buffer 1 bytes>", buffer.inspect
    end
  end
end
