# frozen_string_literal: true

require_relative "test_helper"

# Where a plain program keeps its state. What a worker does has its test in unit/test-hook-load.c.
class TestStateDirectory < Minitest::Test
  class Keeps < UBLK::Target
    def initialize = super(size: 512)
    def where = state_directory
  end

  def setup
    @home = Dir.mktmpdir
    @before = ENV.to_h.slice("XDG_STATE_HOME", "HOME")
    ENV["HOME"] = @home
    ENV.delete("XDG_STATE_HOME")
    UBLK.instance_variable_set(:@state_directory, nil)
  end

  def teardown
    UBLK.serve_device(nil, read_only: false)
    %w[XDG_STATE_HOME HOME].each { |name| ENV[name] = @before[name] }
    system("rm", "-rf", @home)
  end

  def program(name)
    before = $PROGRAM_NAME
    $PROGRAM_NAME = name
    yield
  ensure
    $PROGRAM_NAME = before
  end

  def test_of_a_program
    program("/opt/backup/snap.rb") { assert_equal "#{@home}/.local/state/ublk-ruby/snap", UBLK.state_directory }
    assert_equal 0o700, File.stat(UBLK.state_directory).mode & 0o7777
    assert_predicate UBLK.state_directory, :frozen?
    assert_equal UBLK.state_directory, Keeps.new.where
  end

  def test_without_a_name
    ["-e", "", "a b", "-"].each do |name|
      UBLK.instance_variable_set(:@state_directory, nil)
      program(name) { assert_equal "ruby", File.basename(UBLK.state_directory), name }
    end
  end

  def test_xdg
    ENV["XDG_STATE_HOME"] = "#{@home}/state"
    program("snap") { assert_equal "#{@home}/state/ublk-ruby/snap", UBLK.state_directory }
    UBLK.instance_variable_set(:@state_directory, nil)
    ENV["XDG_STATE_HOME"] = "relative"
    program("snap") { assert_equal "#{@home}/.local/state/ublk-ruby/snap", UBLK.state_directory }
  end

  def test_a_program_says_where
    UBLK.state_directory = "#{@home}/one/disk"
    one = Keeps.new
    assert_equal "#{@home}/one/disk", one.where
    assert File.directory?("#{@home}/one/disk")
    assert_raises(ArgumentError) { UBLK.state_directory = "disk" }
    assert_raises(ArgumentError) { UBLK.state_directory = nil }
    File.write("#{@home}/file", "")
    assert_raises(Errno::EEXIST) { UBLK.state_directory = "#{@home}/file" }
    assert_equal "#{@home}/one/disk", UBLK.state_directory
  end

  def test_of_a_device
    UBLK.serve_device("disk0", read_only: false, state: "#{@home}/disk0", state_owner: 1)
    assert_raises(Errno::EOPNOTSUPP) { UBLK.state_directory } # only a worker has what makes it
    error = assert_raises(UBLK::Error) { UBLK.state_directory = @home }
    assert_includes error.message, "#{@home}/disk0"
    UBLK.serve_device("disk1", read_only: false)
    program("snap") { assert_equal "snap", File.basename(UBLK.state_directory) }
  end
end
