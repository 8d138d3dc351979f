# frozen_string_literal: true

require_relative "test_helper"
require "rbconfig"

# What `require "ublk"` gives on any host.
class TestLibrary < Minitest::Test
  RUBY = [RbConfig.ruby, "-w", *$LOAD_PATH.flat_map { |directory| ["-I", directory] }].freeze

  # Runs a script in an interpreter of its own, and gives what it printed.
  def script(text, *options) = IO.popen([*RUBY, *options, "-e", text], err: %i[child out], &:read)

  def test_version
    assert_match(/\A\d+\.\d+\.\d+\z/, UBLK::VERSION)
  end

  def test_errors
    assert_equal StandardError, UBLK::Error.superclass
    [UBLK::UnsupportedError, UBLK::DeviceError, UBLK::ContractError].each do |error|
      assert_equal UBLK::Error, error.superclass
    end
  end

  def test_a_host_that_can_not
    skip "this host can" if UBLK.supported?
    error = assert_raises(UBLK::UnsupportedError) { UBLK.ensure_supported! }
    ["6.6", "ublk_drv", "liburing"].each { |word| assert_includes error.message, word }
    assert_match(/control device unavailable|ublk\.so/, error.message)
    assert_raises(UBLK::UnsupportedError) { UBLK::Control.new }
    assert_raises(UBLK::UnsupportedError) { UBLK::Device.create(RamDisk.new) }
    assert_raises(UBLK::UnsupportedError) { UBLK::Device.list }
    assert_empty UBLK::Device.owned
  end

  def test_without_the_extension
    text = <<~'RUBY'
      module Kernel
        alias plain require
        def require(name) = name == "ublk.so" ? raise(LoadError, "no ublk.so here") : plain(name)
      end
      require "ublk"
      puts UBLK.native_load_error.message, UBLK.supported?
      begin
        UBLK.ensure_supported!
      rescue UBLK::UnsupportedError => e
        puts e.message
      end
      puts UBLK::Params.new(size: 512).size
    RUBY
    lines = script(text).lines(chomp: true)
    assert_equal ["no ublk.so here", "false"], lines[0, 2]
    assert_match(/6\.6.*ublk_drv.*liburing.*no ublk\.so here/, lines[2])
    assert_equal "512", lines[3]
  end

  # A plain program keeps its own main object and signals.
  def test_it_leaves_the_program_alone
    assert_equal "[false, \"DEFAULT\"]\n", script('require "ublk"; p [respond_to?(:run, true), trap("INT", "DEFAULT")]')
  end

  def test_target
    target = RamDisk.new(queues: 4, depth: 32)
    assert_equal [1 << 20, 4, 32], [target.size, target.queues, target.depth]
    assert_equal [1, 128], [RamDisk.new.queues, RamDisk.new.depth]
    [0, 4097, "1", nil, 1.5].each do |count|
      assert_raises(ArgumentError) { RamDisk.new(queues: count) }
      assert_raises(ArgumentError) { RamDisk.new(depth: count) }
    end
    plain = UBLK::Target.new(size: 512)
    assert_equal 0, plain.flush
    assert_raises(Errno::EOPNOTSUPP) { plain.discard(0, 512) }
    assert_raises(Errno::EOPNOTSUPP) { plain.write_zeroes(0, 512) }
  end
end
