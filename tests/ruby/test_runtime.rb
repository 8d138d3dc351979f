# frozen_string_literal: true

require_relative "test_helper"

# The loader and the judge of exceptions, in plain Ruby. The C side is tests/unit/test-hook*.c.
class TestRuntime < Minitest::Test
  DISK = <<~RUBY
    class %s < UBLK::Target
      option :size, :bytes, default: "1M"
      def initialize(size:) = super
      def read(offset, length) = nil
      def write(offset, data) = nil
    end
  RUBY

  def load_text(text, arguments: [], class_name: nil, recovery: "default", read_only: false)
    Dir.mktmpdir do |directory|
      path = File.join(directory, "disk.rb")
      File.write(path, text)
      UBLK::Runtime.load(name: "disk", path: path, class_name: class_name, device: "disk0", arguments: arguments,
                         recovery: recovery, read_only: read_only)
    end
  end

  def test_facts
    facts = load_text(format(DISK, "One"), arguments: [["size", "s", "2M"]])
    assert_equal [2 << 20, "none", false, false], facts.values_at(:size, :recovery, :can_discard, :takes_unmap)
    assert_equal "disk0", UBLK.device_name
    refute UBLK.read_only?
  end

  def test_the_same_script_twice
    2.times { assert_equal 1 << 20, load_text(format(DISK, "Again"))[:size] }
  end

  def test_several_classes
    error = assert_raises(UBLK::HookError) { load_text(format(DISK, "Left") + format(DISK, "Right")) }
    assert_includes error.message, "several targets: Left, Right"
    chosen = load_text(format(DISK, "Left") + format(DISK, "Right"), class_name: "Right")[:target]
    assert_equal "Right", UBLK::Script.name_of(chosen.class)
  end

  def test_unmap_keyword
    { "o, l" => false, "o, l, unmap: true" => true, "o, l, unmap:" => true, "o, l, **o2" => true, "*all" => false }.each do |list, takes|
      text = "#{format(DISK, "Zeroes")}class Zeroes; def write_zeroes(#{list}) = 0; end"
      assert_equal [true, takes], load_text(text).values_at(:can_write_zeroes, :takes_unmap), list
    end
  end

  def describe(error) = UBLK::Runtime.describe(error, nil)

  def errno(error) = describe(error)[1]

  def test_errnos
    assert_equal Errno::ENOSPC::Errno, errno(Errno::ENOSPC.new)
    [SystemCallError.new("x"), SystemCallError.new("x", 0), SystemCallError.new("x", 4096), SystemCallError.new("x", -5),
     RuntimeError.new, SystemExit.new, NoMemoryError.new, Interrupt.new].each do |error|
      assert_equal Errno::EIO::Errno, errno(error), error.inspect
    end
    require "timeout"
    assert_equal Errno::ETIMEDOUT::Errno, errno(Timeout::Error.new)
    assert_equal Errno::ETIMEDOUT::Errno, errno(UBLK::Runtime.hook_timeout("x"))
  end

  def test_messages
    assert_equal "caf\u00e9", describe(RuntimeError.new("caf\u00e9".encode("ISO-8859-1")))[3]
    assert_equal "caf\u00e9", describe(RuntimeError.new("caf\u00e9".encode("UTF-16LE")))[3]
    assert_equal "a?b", describe(RuntimeError.new("a\xffb"))[3].tr("\ufffd", "?")
    assert_equal "ab", describe(RuntimeError.new("a\0b"))[3]
    assert_equal "(no message)", describe(RuntimeError.new(""))[3]
    long = describe(RuntimeError.new("\u00e9" * 10_000))[3]
    assert_operator long.bytesize, :<=, 1000
    assert_predicate long, :valid_encoding?
  end

  def deep(times) = times.zero? ? raise("deep") : deep(times - 1)

  def test_backtrace
    assert_nil describe(RuntimeError.new("never raised"))[6]
    frames = describe(assert_raises(RuntimeError) { deep(20) })[6].lines(chomp: true)
    assert_equal 8, frames.size
    frames.each { |frame| assert_match(/\A    from \S+test_runtime\.rb:\d+:in .*deep/, frame) }
    odd = RuntimeError.new("x")
    odd.set_backtrace(["a\xff\0#{"b" * 500}".b, "c"])
    first, second = describe(odd)[6].lines(chomp: true)
    assert_operator first.bytesize, :<=, 210
    assert_equal ["    from c", true, false], [second, first.valid_encoding?, first.include?("\0")]
    assert_nil describe(Class.new(StandardError) { def backtrace = raise }.new("x"))[6]
  end

  def sleep_deep(times) = times.zero? ? sleep : sleep_deep(times - 1)

  def test_trace
    thread = Thread.new { sleep_deep(20) }
    Thread.pass until thread.stop?
    frames = UBLK::Runtime.trace(thread).lines(chomp: true)
    assert_match(/sleep/, frames.first)
    assert_equal 10, frames.size
    frames.each { |frame| assert_match(/\A\S+test_runtime\.rb:\d+:in .*sleep/, frame) }
    thread.kill.join
    assert_nil UBLK::Runtime.trace(thread)
  end

  def test_a_timeout_is_no_standard_error
    assert_raises(UBLK::HookTimeout) do
      raise UBLK::Runtime.hook_timeout("x")
    rescue StandardError
      nil
    end
  end

  # On trial, new code may refuse requests; any other exception ends it.
  def test_answers
    require "timeout"
    [Errno::ENOSPC.new, SystemCallError.new("x", 0), Timeout::Error.new].each { |error| assert describe(error)[8], error.inspect }
    [RuntimeError.new, SystemExit.new, NoMemoryError.new, UBLK::ContractError.new("x")].each { |error| refute describe(error)[8] }
  end

  def test_kinds
    assert_equal ["arguments", Errno::EINVAL::Errno, nil], describe(UBLK::ArgumentsError.new("x"))[0, 3]
    assert_equal ["no-hook", Errno::ENOENT::Errno, nil], describe(UBLK::NoHookError.new("x"))[0, 3]
    assert_equal ["hook", Errno::EIO::Errno, "UBLK::ContractError"], describe(UBLK::ContractError.new("x"))[0, 3]
  end
end
