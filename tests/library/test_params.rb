# frozen_string_literal: true

require_relative "test_helper"

class TestParams < Minitest::Test
  def refused(word, **values)
    error = assert_raises(ArgumentError, values.inspect) { UBLK::Params.new(size: 1 << 20, **values) }
    assert_includes error.message, word
  end

  def test_limits
    [0, 256, 513, 8192, "512", nil, 512.0].each { |bytes| refused "logical_block_size", logical_block_size: bytes }
    [256, 3000, 1 << 29].each { |bytes| refused "physical_block_size", physical_block_size: bytes }
    refused "physical_block_size", logical_block_size: 4096, physical_block_size: 512
    [0, 512, 513, 4608, (32 << 20) + 4096, "4096", nil].each { |bytes| refused "max_io_bytes", max_io_bytes: bytes }
    [0, -512, 513, 1 << 63, nil, "1"].each do |bytes|
      assert_includes assert_raises(ArgumentError) { UBLK::Params.new(size: bytes) }.message, "size"
    end
    assert_raises(ArgumentError) { UBLK::Params.new(size: 512, logical_block_size: 4096) }
    assert_raises(ArgumentError) { UBLK::Params.new }
    assert_equal 32 << 20, UBLK::Params.new(size: 512, max_io_bytes: 32 << 20).max_io_bytes
  end

  # 4608 would be 4096 to the kernel, which then refuses to make requests of nine sectors.
  def test_a_size_that_the_kernel_would_round
    error = assert_raises(ArgumentError) { UBLK::Params.new(size: 1 << 20, max_io_bytes: 4608) }
    assert_match(/a multiple of the page size, \d+, up to 33554432 \(32 MiB\), not 4608/, error.message)
  end

  def test_defaults
    params = UBLK::Params.new(size: 1 << 20)
    assert_equal [512, 4096, 524_288, false, false, true],
                 [params.logical_block_size, params.physical_block_size, params.max_io_bytes, params.read_only,
                  params.rotational, params.discard]
    assert_predicate params, :frozen?
    assert_raises(FrozenError) { params.size = 512 }
    assert_equal params, UBLK::Params.new(size: 1 << 20)
    assert_equal [2 << 20, 4096], params.with(size: 2 << 20).to_native[0, 3].values_at(0, 2)
  end

  def test_from_target
    target = Class.new(RamDisk) do
      def logical_block_size = 4096
      def rotational? = :yes
      def read_only? = nil
    end.new
    params = UBLK::Params.from_target(target, max_io_bytes: 65_536)
    assert_equal [1 << 20, 4096, 4096, 65_536, false, true, false], params.to_native[0, 6] << params.discard
  end

  def test_discard_is_seen_in_a_class_a_module_and_an_object
    discards = Module.new { def discard(_offset, _length) = 0 }
    assert UBLK::Params.from_target(Class.new(RamDisk) { include discards }.new).discard
    assert UBLK::Params.from_target(RamDisk.new.extend(discards)).discard
    single = RamDisk.new
    def single.write_zeroes(_offset, _length) = 0
    params = UBLK::Params.from_target(single)
    assert_equal [true, false, true], [params.discard, params.can_discard, params.can_write_zeroes]
  end

  # What is wrapped can't: the wrapper must not say it could.
  def test_a_layer_has_what_is_below_it
    refute UBLK::Params.from_target(UBLK::Layer.new(RamDisk.new)).discard
    below = RamDisk.new
    def below.discard(_offset, _length) = 0
    def below.logical_block_size = 4096
    params = UBLK::Params.from_target(UBLK::Layer.new(below))
    assert_equal [true, false, 4096], [params.can_discard, params.can_write_zeroes, params.logical_block_size]
  end

  def test_there_and_back
    params = UBLK::Params.new(size: 1 << 30, logical_block_size: 1024, discard: false, can_write_zeroes: true, read_only: true)
    back = UBLK::Params.from_native(params.to_native)
    assert_equal params.to_native, back.to_native
    assert_empty params.differences(back)
  end

  def test_differences
    params = UBLK::Params.new(size: 1 << 20)
    other = UBLK::Params.new(size: 2 << 20, rotational: true, discard: false, max_io_bytes: 4096)
    assert_equal ["size was 1048576 and now would be 2097152"], params.differences(other)
  end
end
