# frozen_string_literal: true

require_relative "test_helper"

class TestFileLock < Minitest::Test
  Lock = UBLK::FileLock

  def setup
    @directory = Dir.mktmpdir
    @path = File.join(@directory, "disk")
    File.write(@path, "")
    @files = []
  end

  def teardown
    @files.each(&:close)
    FileUtils.rm_rf(@directory)
  end

  def file = File.open(@path, "r+b").tap { |file| @files << file }

  # Another process that has it, until it is killed.
  def holder
    reader, writer = IO.pipe
    pid = fork do
      Lock.take(File.open(@path, "r+b"))
      writer << "taken"
      sleep
    ensure
      exit!(1)
    end
    writer.close
    assert_equal "taken", reader.read(5)
    yield pid
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
    reader.close
  end

  def assert_refused(other = file, **options)
    assert_equal "#{@path} is in use by another disk; stop it first",
                 assert_raises(UBLK::Error) { Lock.take(other, **options) }.message
  end

  def test_it_is_one_disks
    mine = file
    assert_same mine, Lock.take(mine)
    assert_same mine, Lock.take(mine)
    holder_of_another = File.open(File.join(@directory, "other"), "w")
    assert Lock.take(holder_of_another)
    mine.close
    assert Lock.take(file)
  ensure
    holder_of_another&.close
  end

  # Nothing would come of waiting.
  def test_another_target_of_this_process
    Lock.take(file)
    assert_refused(seconds: Float::INFINITY)
  end

  # A program may make a disk again without having closed the target that it had before. That a file is garbage the
  # collector need not see each time.
  def test_a_target_that_is_garbage
    taken = Array.new(20) { Thread.new { taken_for_a_moment }.value }
    assert_operator taken.count(true), :>, 1
  end

  def taken_for_a_moment
    Lock.take(File.open(@path, "r+b")) && true
  rescue UBLK::Error
    false
  end

  def test_another_process
    holder { assert_refused(seconds: 0) }
    assert Lock.take(file, seconds: 0)
  end

  # As Device.recover has to.
  def test_a_process_that_is_ending
    holder do |pid|
      taker = Thread.new { Lock.take(file, seconds: Float::INFINITY) }
      Thread.pass until taker.stop?
      assert_predicate taker, :alive?
      Process.kill(:KILL, pid)
      assert_equal @path, taker.value.path
    end
  end
end
