# frozen_string_literal: true

require_relative "test_helper"

class TestCache < Minitest::Test
  include Exercise
  Cache = UBLK::Layers::Cache

  # Counts, and can do something in the middle of a read.
  class Watched < HoleyDisk
    attr_reader :reads
    attr_accessor :meanwhile

    def read(offset, length)
      (@reads ||= []) << [offset, length]
      super.tap { meanwhile&.call }
    end
  end

  def cached(**options) = Cache.new(@below = Watched.new(size: SIZE), **options)

  def test_against_a_shadow
    [[512, 4096], [4096, 16_384], [4096, 1 << 20], [65_536, 1 << 18]].each do |block, bytes|
      exercise(cached(block: block, bytes: bytes), "\0".b * SIZE, steps: 300)
    end
  end

  def test_hits
    disk = cached
    3.times { disk.read(4096, 4096) }
    disk.read(4096 + 512, 1024)
    assert_equal [[4096, 4096]], @below.reads
    assert_equal [3, 1], [disk.hits, disk.misses]
    disk.read(0, 512)
    disk.read(0, 8192)
    assert_equal [[4096, 4096], [0, 4096]], @below.reads
  end

  def test_the_oldest_goes_first
    disk = cached(bytes: 8192)
    [0, 4096, 0, 8192].each { |at| disk.read(at, 4096) }
    @below.reads.clear
    disk.read(0, 4096)
    assert_empty @below.reads
    disk.read(4096, 4096)
    assert_equal [[4096, 4096]], @below.reads
    disk.read(0, 65_536) # larger than the cache
    assert_operator disk.instance_variable_get(:@blocks).size, :<=, 2
  end

  def test_every_change_is_seen
    disk = cached
    disk.write(0, "a" * 16_384)
    { write: ["b" * 512], discard: [512], write_zeroes: [512] }.each do |op, rest|
      disk.read(0, 16_384)
      disk.public_send(op, 4096, *rest)
      assert_same_bytes @below.data.byteslice(0, 16_384), disk.read(0, 16_384)
    end
  end

  def test_a_change_during_a_read
    disk = cached
    @below.meanwhile = lambda do
      @below.meanwhile = nil
      disk.write(0, "new!" * 1024)
    end
    disk.read(0, 4096)
    assert_same_bytes "new!" * 1024, disk.read(0, 4096)
  end

  def test_a_write_that_fails
    disk = cached
    disk.read(0, 4096)
    @below.define_singleton_method(:write) { |offset, data| super(offset, data) && raise(Errno::EIO) }
    assert_raises(Errno::EIO) { disk.write(0, "x" * 4096) }
    assert_same_bytes "x" * 4096, disk.read(0, 4096)
  end

  def test_what_is_returned_is_the_callers_to_keep_but_not_to_change
    disk = cached
    disk.read(0, 4096)
    copy = disk.read(0, 4096)
    begin
      copy << "x"
    rescue FrozenError
      nil
    end
    assert_same_bytes "\0" * 4096, disk.read(0, 4096)
  end

  def test_options
    [{ bytes: 100 }, { block: 100 }, { block: 256 }, { bytes: "much" }].each do |options|
      assert_raises(ArgumentError, options.inspect) { cached(**options) }
    end
  end
end

class TestVerify < Minitest::Test
  include Exercise
  Verify = UBLK::Layers::Verify

  def verified(**options) = Verify.new(@below = HoleyDisk.new(size: SIZE), **options)

  def corrupt(position) = @below.data.setbyte(position, @below.data.getbyte(position) ^ 1)

  def test_against_a_shadow
    [512, 4096, 65_536].each { |block| exercise(verified(block: block, learn: true), "\0".b * SIZE, steps: 300) }
  end

  def test_mismatch
    disk = verified
    disk.write(4096, "x" * 8192)
    corrupt(8191)
    assert_equal 4096, disk.read(8192, 4096).bytesize
    assert_equal 4096, disk.read(0, 4096).bytesize
    error = assert_raises(Errno::EILSEQ) { disk.read(4096, 512) }
    assert_includes error.message, "block 1 (4096 bytes at 4096)"
    assert_raises(Errno::EILSEQ) { disk.read(0, 65_536) }
    assert_equal 2, disk.mismatches
    disk.write(4096, "y" * 4096)
    assert_same_bytes "y" * 4096, disk.read(4096, 4096)
  end

  # A write of a part must not give a right checksum to what is wrong beside it.
  def test_partial_blocks
    disk = verified
    disk.write(0, "x" * 4096)
    disk.write(512, "y" * 512)
    assert_same_bytes "x" * 512 + "y" * 512 + "x" * 3072, disk.read(0, 4096)
    corrupt(4095)
    assert_raises(Errno::EILSEQ) { disk.write(512, "z" * 512) }
    assert_raises(Errno::EILSEQ) { disk.read(0, 512) }
  end

  def test_unknown_blocks
    disk = verified
    disk.read(0, 4096)
    corrupt(0)
    assert_equal 4096, disk.read(0, 4096).bytesize
    disk = verified(learn: true)
    disk.read(0, 4096)
    corrupt(0)
    assert_raises(Errno::EILSEQ) { disk.read(0, 512) }
  end

  def test_discard_forgets
    disk = verified
    disk.write(0, "x" * SIZE)
    disk.discard(4096, 4096)
    disk.write_zeroes(SIZE - 4096, 4096)
    [4096, SIZE - 4096].each { |at| corrupt(at) || assert(disk.read(at, 4096)) }
    corrupt(0)
    assert_raises(Errno::EILSEQ) { disk.read(0, 4096) }
    disk.discard(0, SIZE)
    assert_empty disk.instance_variable_get(:@chunks).values.reject { |chunk| chunk.delete("\0").empty? }
  end

  # What is read while the target discards must not be taken for what the block holds.
  def test_a_request_during_a_discard
    %i[discard write_zeroes].each do |op|
      { read: [0, 4096], write: [512, "y" * 512] }.each do |other, arguments|
        disk = verified(learn: true)
        @below.write(0, "x" * 4096)
        thread = nil
        @below.define_singleton_method(:write_zeroes) do |offset, length, unmap: true|
          thread = Thread.new { disk.public_send(other, *arguments) }
          Thread.pass until thread.stop?
          super(offset, length, unmap: unmap)
        end
        disk.public_send(op, 0, 4096)
        thread.join
        assert_same_bytes @below.data.byteslice(0, 4096), disk.read(0, 4096)
      end
    end
  end

  def test_a_huge_discard_is_quick
    below = Class.new(HoleyDisk) do
      def initialize = UBLK::Target.instance_method(:initialize).bind_call(self, size: 1 << 60)
      def discard(*) = 0
    end
    disk = Verify.new(below.new)
    disk.discard(0, 1 << 41)
    assert_empty disk.instance_variable_get(:@chunks)
  end

  def test_a_write_that_fails_is_unknown
    disk = verified
    disk.write(0, "x" * 4096)
    @below.define_singleton_method(:write) { |offset, data| super(offset, data) && -5 }
    assert_equal(-5, disk.write(0, "y" * 4096))
    assert_same_bytes "y" * 4096, disk.read(0, 4096)
  end

  # Such as one that encrypts in place.
  def test_the_target_may_change_what_it_is_given
    below = Class.new(HoleyDisk) do
      def write(offset, data) = super(offset, data.tap(&:swapcase!))
      def read(offset, length) = super.swapcase
    end
    disk = Verify.new(below.new(size: SIZE))
    disk.write(0, "x" * 4096)
    assert_same_bytes "x" * 4096, disk.read(0, 4096)
  end
end
