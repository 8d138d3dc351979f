# frozen_string_literal: true

require_relative "test_helper"

class TestControl < Minitest::Test
  # Nothing of these reaches a kernel.
  def control = UBLK::Control.allocate

  def test_limits
    { queues: [0, 4097, "1", nil], depth: [0, 4097, 1.0], max_io_bytes: [0, 513, 4608], id: [-1, 1 << 20, "0"],
      recovery: [:sometimes, "fail"] }.each do |name, values|
      values.each do |value|
        error = assert_raises(ArgumentError, "#{name} #{value.inspect}") { control.add_dev(**{ name => value }) }
        assert_includes error.message, name.to_s
      end
    end
  end

  def test_recovery
    assert_equal %i[none none fail reissue fail_io none],
                 [false, nil, true, :reissue, :fail_io, :none].map { |value| UBLK::Control.recovery(value) }
  end

  def test_only_this_process_serves
    assert_raises(ArgumentError) { control.start_dev(0, pid: 1) }
    assert_raises(ArgumentError) { control.end_user_recovery(0, pid: 1) }
  end

  # A device of the service has "uRub" there, others nothing.
  def test_tag
    info = { id: 1, queues: 1, depth: 1, state: 1, max_io_bytes: 4096, pid: 1, flags: 0, owner_uid: 0, owner_gid: 0 }
    assert_predicate UBLK::DeviceInfo.new(**info, tag: UBLK::Control.new_tag), :ours?
    refute_predicate UBLK::DeviceInfo.new(**info, tag: 0x75527562 << 32 | 7), :ours?
    refute_predicate UBLK::DeviceInfo.new(**info), :ours?
    refute_equal UBLK::Control.new_tag, UBLK::Control.new_tag
  end

  def test_device_info
    info = UBLK::DeviceInfo.from_native([7, 2, 64, 2, 524_288, -1, 0xca, 0, 0, 5])
    assert_equal ["/dev/ublkb7", "/dev/ublkc7", :quiesced, true, true], [info.path, info.char_path, info.state_name,
                                                                        info.recoverable?, info.recovery?]
    assert_predicate info, :frozen?
    assert_equal 64, info.to_h[:depth]
  end

  # Answers as the extension would.
  class FakeNative
    attr_reader :calls
    attr_accessor :features, :added

    def initialize
      @features = 0x1fe
      @calls = []
    end

    def add(id, queues, depth, max_io, flags, tag)
      @calls << [:add, flags]
      @added || [id || 0, queues, depth, 0, max_io, 0, flags, 0, 0, tag]
    end

    def delete(id) = @calls << [:delete, id]
    def rounds_last? = false
    def ids = [1, 2, 3]

    def info(id)
      raise Errno::ENODEV if id == 2

      [id, 1, 1, 1, 4096, 1, 0, 0, 0, 0]
    end

    def start_recovery(id)
      @calls << [:start_recovery, id]
      raise Errno::EBUSY if @calls.size < 4
    end
  end

  def control_with(native) = control.tap { |c| c.instance_variable_set(:@native, native) }

  def test_flags
    native = FakeNative.new
    info = control_with(native).add_dev(recovery: :reissue)
    assert_equal [:add, 0xd8], native.calls.last
    assert_predicate info, :ours?
    error = assert_raises(UBLK::UnsupportedError) { control_with(native).add_dev(recovery: :fail_io) }
    assert_includes error.message, "6.13"
    assert_equal 1, native.calls.size
  end

  def test_what_the_kernel_made_otherwise_is_deleted_again
    native = FakeNative.new
    native.added = [4, 1, 64, 0, 524_288, 0, 0xc0, 0, 0, 0]
    assert_raises(UBLK::DeviceError) { control_with(native).add_dev(depth: 128) }
    assert_equal [:delete, 4], native.calls.last
    native.added = [5, 1, 128, 0, 524_288, 0, 0x40, 0, 0, 0]
    assert_raises(UBLK::UnsupportedError) { control_with(native).add_dev }
    assert_equal [:delete, 5], native.calls.last
  end

  def test_list_skips_what_it_can_not_ask
    assert_equal [1, 3], control_with(FakeNative.new).list.map(&:id)
  end

  def test_recovery_waits_for_the_former_server
    native = FakeNative.new
    info = UBLK::DeviceInfo.from_native(native.info(1))
    control_with(native).prepare_recovery(info)
    assert_equal 4, native.calls.size
    native.calls.clear
    assert_raises(Errno::EBUSY) { control_with(native).prepare_recovery(info, seconds: -1) }
  end
end
