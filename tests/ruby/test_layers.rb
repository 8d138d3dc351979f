# frozen_string_literal: true

require "timeout"

require_relative "test_helper"
require "stringio"

# What every layer passes on, and each of the simple ones. Cow, Cache and Verify have files of their own.
class TestLayers < Minitest::Test
  include Exercise
  include UBLK::Layers

  # Without a pause that takes time.
  module Hurried
    attr_reader :pauses

    def pause(seconds)
      (@pauses ||= []) << seconds
      @now = (@now || 0) + seconds
    end

    def clock = @now ||= 0
  end

  class Odd < PlainDisk
    def logical_block_size = 4096
    def physical_block_size = 65_536
    def rotational? = true
  end

  def all(directory, below)
    [Trace.new(below, to: StringIO.new), Fault.new(below, rate: 0), Delay.new(below, seconds: 0), RateLimit.new(below, iops: 1 << 40),
     Stats.new(below), Cow.new(below, overlay: File.join(directory, "overlay")), Cache.new(below), Retry.new(below),
     Verify.new(below), Partition.new(below, offset: 0), UBLK::Policy.new(below), UBLK::Around.new(below), UBLK::Layer.new(below)]
  end

  def each_layer(make)
    names = nil
    (0..12).each do |index|
      Dir.mktmpdir do |directory|
        layers = all(directory, make.call)
        names = layers.map { |layer| layer.class.name }
        yield layers[index]
      end
    end
    assert_equal 13, names.size
  end

  def test_data
    each_layer(-> { HoleyDisk.new(size: SIZE) }) do |layer|
      exercise(layer, "\0".b * SIZE)
      assert_equal 0, layer.flush
    end
  end

  def test_data_on_a_disk_of_no_whole_block
    each_layer(-> { HoleyDisk.new(size: 70_144) }) { |layer| exercise(layer, "\0".b * 70_144, steps: 200) }
  end

  def test_geometry
    each_layer(-> { Odd.new(size: SIZE) }) do |layer|
      assert_equal [SIZE, 4096, 65_536, true, false],
                   [layer.size, layer.logical_block_size, layer.physical_block_size, layer.rotational?, layer.read_only?]
    end
  end

  # The floor's tracing wrapper advertises what the disk below can't do.
  def test_abilities
    each_layer(-> { PlainDisk.new(size: SIZE) }) do |layer|
      own = layer.is_a?(Cow)
      %i[discard write_zeroes].each { |op| assert_equal own, UBLK::Abilities.supports?(layer, op), layer.class.name }
      assert_raises(Errno::EOPNOTSUPP) { layer.discard(0, 4096) } unless own
    end
    each_layer(-> { HoleyDisk.new(size: SIZE) }) do |layer|
      %i[read write discard write_zeroes].each { |op| assert UBLK::Abilities.supports?(layer, op), layer.class.name }
    end
    disk = PlainDisk.new(size: SIZE)
    disk.define_singleton_method(:discard) { |_, _| 0 }
    assert UBLK::Abilities.supports?(Trace.new(Stats.new(disk)), :discard)
  end

  def test_read_only_is_seen_through_a_layer
    each_layer(-> { ReadOnly.new(PlainDisk.new(size: SIZE)) }) { |layer| assert_equal !layer.is_a?(Cow), layer.read_only? }
  end

  def test_unmap_is_passed_on
    each_layer(-> { HoleyDisk.new(size: SIZE) }) do |layer|
      next if layer.is_a?(Cow)

      [true, false].each { |unmap| layer.write_zeroes(0, 4096, unmap: unmap) }
      assert_equal [true, false], layer.target.unmaps, layer.class.name
    end
    without = Class.new(PlainDisk) { def write_zeroes(offset, length) = write(offset, "\0" * length) && 0 }
    assert_equal 0, Stats.new(Trace.new(without.new(size: SIZE), to: StringIO.new)).write_zeroes(0, 512, unmap: false)
  end

  def test_refusals_and_errors_are_passed_on
    each_layer(-> { Class.new(PlainDisk) { def read(*) = -28 }.new(size: SIZE) }) do |layer|
      next if layer.is_a?(Retry)

      answer = begin
        layer.read(0, 4096)
      rescue Errno::ENOSPC
        -28
      end
      assert_equal(-28, answer, layer.class.name)
    end
    each_layer(-> { Class.new(PlainDisk) { def read(*) = raise("no") }.new(size: SIZE) }) do |layer|
      assert_raises(RuntimeError, layer.class.name) { layer.read(0, 4096) }
    end
  end

  def test_a_short_read_is_never_hidden
    each_layer(-> { Class.new(PlainDisk) { def read(*) = "x" }.new(size: SIZE) }) do |layer|
      begin
        assert_equal "x", layer.read(0, 4096), layer.class.name
      rescue UBLK::ContractError => e
        assert_includes e.message, "4096"
      end
    end
  end

  def test_only_round_a_target
    assert_raises(ArgumentError) { Trace.new(Object.new) }
    assert_raises(ArgumentError) { Trace.new(PlainDisk) }
    assert_raises(ArgumentError) { Trace.new(PlainDisk.new(size: SIZE), ops: :erase) }
  end

  def test_trace
    out = StringIO.new
    disk = Trace.new(Fault.new(HoleyDisk.new(size: SIZE), ops: :discard, errno: "ENOSPC"), to: out)
    disk.write(4096, "x" * 512)
    disk.flush
    disk.discard(0, 512)
    assert_raises(TypeError) { disk.read(nil, 512) }
    assert_equal ["write 4096+512 ok", "flush ok", "discard 0+512 refused (-28)"],
                 out.string.lines.first(3).map { |line| line[/\A(.*) \d+\.\d{3} ms$/, 1] }
    assert_match(/\Aread \+512 TypeError/, out.string.lines.last)
    quiet = StringIO.new
    Trace.new(PlainDisk.new(size: SIZE), ops: %i[flush], to: quiet).read(0, 512)
    assert_empty quiet.string
  end

  def fault(**options) = Fault.new(PlainDisk.new(size: SIZE), **options)

  def test_fault_range
    disk = fault(range: 4096...8192)
    assert_equal [-5, -5, -5, -5], [[4096, 512], [7680, 512], [0, 4608], [0, 65_536]].map { |at, length| disk.read(at, length) }
    assert_equal(-5, disk.write(4096, "x" * 512))
    [[0, 4096], [8192, 512]].each { |at, length| assert_equal length, disk.read(at, length).bytesize }
    assert_equal 0, disk.flush
    assert_equal(-5, fault(range: 0..511).read(0, 512))
    assert_equal 512, fault(range: 0..511).read(512, 512).bytesize
    assert_equal(-5, fault(range: 512..).read(SIZE - 512, 512))
  end

  def test_fault_conditions
    disk = fault(ops: %i[write flush], errno: 28)
    assert_equal [-28, -28], [disk.write(0, "x" * 512), disk.flush]
    assert_equal 512, disk.read(0, 512).bytesize
    [Errno::ENOSPC, "ENOSPC", :ENOSPC, 28, -28].each { |errno| assert_equal(-28, fault(errno: errno).read(0, 512)) }
    Dir.mktmpdir do |directory|
      trigger = File.join(directory, "now")
      disk = fault(trigger: trigger)
      assert_equal 512, disk.read(0, 512).bytesize
      File.write(trigger, "")
      assert_equal(-5, disk.read(0, 512))
    end
    disk = fault(rate: 0.25, seed: 1)
    assert_includes 180..320, (1..1000).count { disk.read(0, 512) == -5 }
  end

  def test_fault_options
    [{ range: 5 }, { range: "a".."b" }, { errno: 0 }, { errno: 5000 }, { errno: "ENONE" }, { errno: "x y" }, { rate: 2 },
     { rate: "often" }, { ops: :nothing }].each { |options| assert_raises(ArgumentError, options.inspect) { fault(**options) } }
  end

  def test_delay
    disk = Delay.new(PlainDisk.new(size: SIZE), seconds: "10ms", jitter: 0.005, ops: :read).extend(Hurried)
    100.times { disk.read(0, 512) }
    disk.write(0, "x" * 512)
    assert_equal 100, disk.pauses.size
    assert(disk.pauses.all? { |seconds| seconds.between?(0.010, 0.015) })
    assert_raises(ArgumentError) { Delay.new(PlainDisk.new(size: SIZE), seconds: "soon") }
  end

  def limited(**options)
    RateLimit.new(HoleyDisk.new(size: SIZE), **options).extend(Hurried)
  end

  def test_rate_limit
    disk = limited(iops: 100, burst: 0)
    201.times { disk.read(0, 512) }
    assert_in_delta 2.0, disk.clock, 0.011
    disk = limited(bytes: "1M", burst: 0)
    33.times { disk.write(0, "x" * 65_536) }
    assert_in_delta 2.0, disk.clock, 0.07
    before = disk.clock
    disk.discard(0, SIZE)
    disk.discard(0, SIZE)
    assert_in_delta before, disk.clock, 0.07
  end

  def test_rate_limit_burst
    disk = limited(iops: 100, burst: 1)
    101.times { disk.read(0, 512) }
    assert_in_delta 0, disk.clock, 1e-9
    disk.read(0, 512)
    assert_in_delta 0.01, disk.clock, 1e-6
    disk.pause(10)
    101.times { disk.read(0, 512) }
    assert_in_delta 10.01, disk.clock, 1e-6
  end

  def test_rate_limit_really_waits
    disk = RateLimit.new(PlainDisk.new(size: SIZE), iops: 100, burst: 0)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    2.times.map { Thread.new { 11.times { disk.read(0, 512) } } }.each(&:join)
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :>=, 0.2
    [{}, { iops: 0 }, { bytes: 0 }, { iops: "many" }].each { |options| assert_raises(ArgumentError) { limited(**options) } }
  end

  def test_stats
    out = StringIO.new
    disk = Stats.new(Fault.new(PlainDisk.new(size: SIZE), range: 0...512), every: 5, to: out).extend(Hurried)
    disk.pause(0)
    3.times { disk.read(512, 1024) }
    disk.read(0, 512)
    assert_raises(TypeError) { disk.write(512, nil.to_s + "x" * 512) && raise(TypeError) }
    stats = disk.stats
    assert_equal [4, 3072, 1], stats[:read].values.first(3)
    assert_equal [1, 512, 0], stats[:write].values.first(3)
    assert_empty out.string
    real = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    disk.pause(real + 5)
    disk.flush
    assert_match(/\Aread 4 requests 3072 bytes 1 errors .* max; write 1 .*; flush 1 requests/, out.string)
    assert_equal 1, out.string.lines.size
  end

  # As a log on a full disk, or a pipe that nobody reads.
  class Full
    def puts(_line) = raise(Errno::ENOSPC)
  end

  def test_a_line_that_can_not_be_written
    closed = IO.pipe.each(&:close).last
    broken = IO.pipe.tap { |reader, _| reader.close }.last
    [Full.new, closed, broken].each do |to|
      disk = Trace.new(Stats.new(HoleyDisk.new(size: SIZE), every: 0, to: to), to: to)
      _, said = capture_io do
        3.times { |n| assert_equal 512, disk.write(n * 512, "x" * 512) }
        assert_same_bytes "x" * 1536, disk.read(0, 1536)
        assert_equal 0, disk.flush
        assert_raises(TypeError) { disk.read(nil, 512) }
      end
      assert_equal 2, said.lines.grep(/could not write a line/).size, said
      assert_equal %w[Trace Stats].sort, said.scan(/Layers::(\w+) could/).flatten.sort
    end
    assert_equal 1, Trace.new(PlainDisk.new(size: SIZE), to: closed).then { |disk| without_stderr { disk.write(0, "x") } }
  end

  # Nor can that be said.
  def without_stderr
    stderr = $stderr
    $stderr = IO.pipe.each(&:close).last
    yield
  ensure
    $stderr = stderr
  end

  def test_read_only
    below = HoleyDisk.new(size: SIZE)
    disk = ReadOnly.new(below)
    assert_predicate disk, :read_only?
    assert_equal 512, disk.read(0, 512).bytesize
    assert_raises(Errno::EROFS) { disk.write(0, "x" * 512) }
    assert_raises(Errno::EROFS) { disk.discard(0, 512) }
    assert_raises(Errno::EROFS) { disk.write_zeroes(0, 512, unmap: false) }
    assert_equal 0, disk.flush
    %i[write discard write_zeroes].each { |op| refute UBLK::Abilities.supports?(disk, op) }
    assert UBLK::Abilities.supports?(disk, :read)
  end

  # Fails so often, then works. Changes what it is given, which it may.
  class Flaky < PlainDisk
    attr_accessor :failures, :error

    def read(offset, length) = fail_first || super

    def write(offset, data)
      data.upcase!
      fail_first || super
    end

    def fail_first
      return if (self.failures -= 1).negative?

      error.is_a?(Integer) ? error : raise(error)
    end
  end

  def flaky(failures, error, **options)
    below = Flaky.new(size: SIZE)
    below.failures = failures
    below.error = error
    Retry.new(below, **options).extend(Hurried)
  end

  def test_retry
    [Errno::EIO, -5, Errno::ETIMEDOUT, EOFError, Timeout::Error].each do |error|
      disk = flaky(3, error)
      assert_equal 512, disk.read(0, 512).bytesize
      assert_equal [0.1, 0.2, 0.4], disk.pauses
    end
    disk = flaky(2, -5, times: 2, wait: "1s")
    data = "a" * 512
    assert_equal 512, disk.write(0, data)
    assert_equal "a" * 512, data
    assert_equal [1.0, 2.0], disk.pauses
  end

  def test_retry_gives_up
    disk = flaky(4, Errno::EIO)
    assert_raises(Errno::EIO) { disk.read(0, 512) }
    assert_equal(-5, flaky(4, -5).read(0, 512))
    [Errno::ENOSPC, Errno::EROFS, RuntimeError].each do |error|
      disk = flaky(1, error)
      assert_raises(error) { disk.read(0, 512) }
      assert_nil disk.pauses
    end
    disk = flaky(1, -28)
    assert_equal(-28, disk.read(0, 512))
    disk = flaky(1, RuntimeError, on: RuntimeError)
    assert_equal 512, disk.read(0, 512).bytesize
    [0, 101, -1].each { |times| assert_raises(ArgumentError) { flaky(0, -5, times: times) } }
  end

  # As a file of Linux: the data that could not be written is lost, and said to be so once.
  class LosesData < HoleyDisk
    def flush
      @flushes = @flushes.to_i + 1
      @flushes == 1 ? raise(Errno::EIO) : 0
    end
  end

  def test_a_flush_that_failed_is_not_tried_again
    disk = Retry.new(LosesData.new(size: SIZE)).extend(Hurried)
    disk.write(0, "x" * 512)
    assert_raises(Errno::EIO) { disk.flush }
    assert_nil disk.pauses
    assert_equal 0, disk.flush

    below = Class.new(HoleyDisk) { def flush = -5 }.new(size: SIZE)
    disk = Retry.new(below).extend(Hurried)
    assert_equal(-5, disk.flush)
    assert_nil disk.pauses
  end

  def test_partition
    below = HoleyDisk.new(size: SIZE)
    below.write(0, "b" * SIZE)
    disk = Partition.new(below, offset: "64K", length: 128 << 10)
    assert_equal 128 << 10, disk.size
    shadow = "b".b * (128 << 10)
    exercise(disk, shadow)
    assert_same_bytes "b" * 65_536, below.read(0, 65_536)
    assert_same_bytes "b" * (SIZE - 196_608), below.read(196_608, SIZE - 196_608)
    assert_equal SIZE - 512, Partition.new(below, offset: 512).size
    [[-512, 512], [0, (128 << 10) + 512], [128 << 10, 512]].each do |at, length|
      assert_raises(Errno::EINVAL) { disk.read(at, length) }
      assert_raises(Errno::EINVAL) { disk.discard(at, length) }
    end
    [[100, 512], [0, 100], [0, SIZE + 512], [SIZE, nil], [512, SIZE], ["x", 512]].each do |offset, length|
      assert_raises(ArgumentError) { Partition.new(below, offset: offset, length: length) }
    end
  end
end
