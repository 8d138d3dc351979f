# frozen_string_literal: true

require_relative "test_helper"

# The order of things, and what becomes of errors, with a kernel made of two fakes.
class TestDevice < Minitest::Test
  include FakeDevices

  RECOVERY = UBLK::DeviceInfo::USER_RECOVERY

  def test_the_order
    disk = device
    assert_same disk, disk.start
    assert_predicate disk, :live?
    disk.start
    assert_same disk, disk.delete
    assert_equal %i[open run start stop release delete close], @calls
    disk.delete
    assert_equal %i[open run start stop release delete close], @calls
    assert_equal :deleted, disk.state
  end

  def test_each_queue_has_a_thread
    disk = device(queues: 3)
    disk.start(threads: 3)
    assert_equal 3, @calls.count(:run)
    disk.stop
    assert_predicate FakeServer.current, :released
    assert_raises(ArgumentError) { device(queues: 3).start(threads: 2) }
  end

  def test_what_is_deleted_or_stopped_does_not_start
    disk = device
    disk.start.stop
    assert_includes assert_raises(UBLK::DeviceError) { disk.start }.message, "it is stopped"
    disk.delete
    assert_includes assert_raises(UBLK::DeviceError) { disk.start }.message, "it is deleted"
  end

  def test_a_failed_thread_is_raised_and_the_device_deleted_all_the_same
    disk = device(queues: 2)
    disk.start
    FakeServer.current.fail(RuntimeError.new("boom"))
    assert_equal "boom", assert_raises(RuntimeError) { disk.delete }.message
    assert_includes @calls, :delete
    assert_equal :deleted, disk.state
    disk.delete
  end

  def test_a_stop_that_the_kernel_refuses_does_not_keep_it_from_being_deleted
    disk = device
    disk.start
    @control.error_of[:stop] = Errno::ETIMEDOUT.new
    assert_raises(Errno::ETIMEDOUT) { disk.delete }
    assert_equal :deleted, disk.state
  end

  def test_a_start_that_fails_before_the_kernel
    FakeServer.failure = Errno::EINVAL.new("fetch")
    disk = device
    assert_raises(Errno::EINVAL) { disk.start }
    refute_includes @calls, :start
    assert_equal :failed, disk.state
    assert_predicate FakeServer.current, :released
    assert_raises(UBLK::DeviceError) { disk.start }
  end

  def test_a_start_that_the_kernel_refuses
    disk = device
    @control.error_of[:start] = Errno::EPERM.new
    assert_raises(Errno::EPERM) { disk.start }
    assert_equal :failed, disk.state
    assert_equal %i[open run start cancel release], @calls
  end

  def wait_for_live(disk)
    sleep(0.001) until disk.live?
    true
  end

  def test_run_ends_by_stop
    disk = device
    stopper = Thread.new { wait_for_live(disk) && disk.stop }
    assert_same disk, disk.run
    stopper.join
    assert_equal :stopped, disk.state
  end

  def test_run_ends_when_the_device_is_stopped_from_outside
    disk = device
    Thread.new { wait_for_live(disk) && FakeServer.current.stopped }
    disk.run
    assert_equal :stopped, disk.state
  end

  def run_and_raise(disk, error)
    runner = Thread.new do
      Thread.current.report_on_exception = false
      disk.run
    end
    wait_for_live(disk)
    runner.raise(error)
    runner.value
  end

  def test_run_returns_on_interrupt
    disk = device
    assert_same disk, run_and_raise(disk, Interrupt)
    assert_equal :stopped, disk.state
  end

  def test_run_passes_other_exceptions_on
    disk = device
    assert_raises(IOError) { run_and_raise(disk, IOError) }
    assert_equal :stopped, disk.state
  end

  def test_run_hands_over_what_has_recovery
    disk = device(flags: RECOVERY)
    run_and_raise(disk, Interrupt)
    assert_equal :handed_over, disk.state
    refute_includes @calls, :stop
    refute_includes @calls, :delete
  end

  def test_a_failed_thread_ends_run_and_keeps_what_has_recovery
    disk = device(flags: RECOVERY)
    Thread.new { wait_for_live(disk) && FakeServer.current.fail(RuntimeError.new("boom")) }
    assert_raises(RuntimeError) { disk.run }
    assert_equal :handed_over, disk.state
  end

  def test_a_killed_thread_is_an_error
    disk = device
    disk.start
    disk.instance_variable_get(:@threads).first.kill.join
    assert_includes assert_raises(UBLK::DeviceError) { disk.stop }.message, "killed"
  end

  # A node whose sync is not answered: Ruby waits in open, as a process does in fsync.
  def unanswered(disk)
    Dir.mktmpdir do |directory|
      path = File.join(directory, "node")
      File.mkfifo(path)
      disk.define_singleton_method(:path) { path }
      yield
    end
  end

  # Fails if it does not return.
  def stop_and_warn(disk)
    _, said = capture_io do
      stopper = Thread.new do
        Thread.current.report_on_exception = false
        disk.stop
      end
      yield stopper if block_given?
      assert_equal "boom", assert_raises(RuntimeError) { stopper.join(30) || flunk("it waits for the sync") }.message
    end
    assert_match(/node can't be synced .* not yet written is lost/, said)
    assert_equal :stopped, disk.state
  end

  def test_a_disk_that_lost_a_thread_is_not_synced
    disk = device(flags: RECOVERY, queues: 2)
    unanswered(disk) do
      disk.start
      FakeServer.current.fail(RuntimeError.new("boom"))
      Thread.pass while disk.instance_variable_get(:@threads).all?(&:alive?)
      stop_and_warn(disk)
    end
  end

  def test_a_disk_that_loses_a_thread_while_it_is_synced
    disk = device(flags: RECOVERY, queues: 2)
    unanswered(disk) do
      disk.start
      stop_and_warn(disk) do |stopper|
        Thread.pass until stopper.stop?
        FakeServer.current.fail(RuntimeError.new("boom"))
      end
    end
  end

  def test_a_disk_with_recovery_is_synced
    disk = device(flags: RECOVERY)
    unanswered(disk) do
      disk.start
      _, said = capture_io do
        stopper = Thread.new { disk.stop }
        File.open(disk.path, "wb") { nil } # waits for who reads it
        stopper.join
      end
      assert_match(/could not be synced before it is stopped: Invalid argument/, said) # as a pipe can't be
    end
    assert_includes @calls, :stop
  end

  def test_one_that_was_stopped_from_outside_is_no_loss
    disk = device(flags: RECOVERY)
    disk.start
    FakeServer.current.stopped
    Thread.pass while disk.instance_variable_get(:@threads).any?(&:alive?)
    assert_silent { disk.stop }
    assert_equal :stopped, disk.state
  end

  def test_hand_over
    disk = device(flags: RECOVERY)
    disk.start.hand_over
    assert_equal %i[open run start release], @calls
    assert_raises(UBLK::DeviceError) { device.start.hand_over }
    assert_raises(UBLK::DeviceError) { device(flags: RECOVERY).hand_over }
  end

  def test_recovery_ends_with_its_own_command
    disk = device(flags: RECOVERY, recovering: true)
    disk.start
    assert_equal %i[open run end_recovery], @calls
    disk.stop
  end

  def test_the_end_of_the_process
    plain = device
    plain.start.settle(1)
    assert_equal %i[open run start stop release delete close], @calls
    @calls.clear
    device(flags: RECOVERY).start.settle(1)
    assert_equal %i[open run start release], @calls
    @calls.clear
    device(flags: RECOVERY).settle(1)
    assert_equal %i[delete close], @calls
    @calls.clear
    device(flags: RECOVERY, recovering: true).settle(1)
    assert_empty @calls
  end

  def test_its_own_target_may_not_stop_it
    target = RamDisk.new
    disk = device(target)
    disk.start
    thread = disk.instance_variable_get(:@threads).first
    disk.instance_variable_get(:@threads) << Thread.current
    assert_includes assert_raises(UBLK::DeviceError) { disk.stop }.message, "by its own target"
    disk.instance_variable_get(:@threads).delete(Thread.current)
    assert_predicate thread, :alive?
    disk.stop
  end

  def test_a_forked_child_has_no_part_in_it
    disk = device
    disk.start
    reader, writer = IO.pipe
    pid = fork do
      disk.stop
    rescue RuntimeError => e
      writer.write(e.message, UBLK::Device.owned.size)
    ensure
      exit!(0)
    end
    Process.wait(pid)
    writer.close
    assert_match(/belongs to process #{Process.pid}, which forked0/, reader.read)
    disk.delete
  end

  def test_targets_that_are_none
    error = assert_raises(UBLK::HookError) { UBLK::Device.create(UBLK::Target.new(size: 512)) }
    assert_includes error.message, "must define read"
  end

  def test_paths
    disk = device
    assert_equal [3, "/dev/ublkb3", "/dev/ublkc3"], [disk.id, disk.path, disk.char_path]
    assert_equal({}, disk.statistics)
    disk.start
    assert_equal({ requests: 3 }, disk.statistics)
    disk.delete
  end

  def test_run_without_an_extension
    disk = device
    disk.instance_variable_set(:@server_class, nil)
    UBLK::Native.stub(:const_defined?, false) { assert_raises(UBLK::UnsupportedError) { disk.run } }
  end
end
