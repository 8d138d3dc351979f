# frozen_string_literal: true

require_relative "test_helper"

class TestPolicy < Minitest::Test
  include Exercise

  # A policy whose verdict is set.
  class Judge < UBLK::Policy
    attr_accessor :verdict
    attr_reader :asked

    def before(*question)
      (@asked ||= []) << question
      verdict
    end
  end

  def judge(verdict, below = HoleyDisk.new(size: SIZE)) = Judge.new(below).tap { |policy| policy.verdict = verdict }

  def test_goes_on
    policy = judge(nil)
    exercise(policy, "\0".b * SIZE, steps: 100)
    policy.asked.clear
    policy.write(512, "x" * 1024)
    policy.flush
    policy.write_zeroes(0, 512, unmap: false)
    assert_equal [[:write, 512, 1024], [:flush, 0, 0], [:write_zeroes, 0, 512]], policy.asked
    refute policy.target.unmaps.last
  end

  def test_refuses
    { 28 => -28, -28 => -28, Errno::EDQUOT => -Errno::EDQUOT::Errno, 4095 => -4095 }.each do |verdict, answer|
      policy = judge(verdict)
      assert_equal [answer] * 5, [policy.read(0, 512), policy.write(0, "x" * 512), policy.flush, policy.discard(0, 512),
                                  policy.write_zeroes(0, 512)]
      assert_nil policy.target.unmaps
    end
  end

  def test_diverts
    other = HoleyDisk.new(size: SIZE)
    policy = judge(other)
    assert_equal 512, policy.write(0, "x" * 512)
    assert_same_bytes "x" * 512, other.read(0, 512)
    assert_same_bytes "\0" * 512, policy.target.read(0, 512)
    policy.write_zeroes(0, 512, unmap: false)
    assert_equal [false], other.unmaps
    assert_raises(Errno::EOPNOTSUPP) { judge(PlainDisk.new(size: SIZE)).discard(0, 512) }
  end

  def test_wrong_verdicts
    [0, 4096, -4096, :EIO, "EIO", true, false, SystemCallError, String, Object.new].each do |verdict|
      assert_raises(UBLK::ContractError, verdict.inspect) { judge(verdict).read(0, 512) }
    end
  end

  def test_the_example_in_its_documentation
    worm = Class.new(UBLK::Policy) do
      def before(op, offset, _length) = op == :write && offset < 1 << 30 ? Errno::EPERM : nil
    end
    disk = worm.new(PlainDisk.new(size: SIZE))
    assert_equal(-1, disk.write(0, "x" * 512))
    assert_equal 512, disk.read(0, 512).bytesize
  end
end
