# frozen_string_literal: true

require "ublk/device_info"
require "ublk/native"
require "ublk/params"

module UBLK
  # The ublk control device. Everything takes CAP_SYS_ADMIN, waits for the kernel without holding up other
  # threads, up to 10 seconds (30 where the kernel reads the disk meanwhile), and raises the Errno that the kernel
  # gives: ENODEV for an unknown id, EEXIST for one that is taken, ETIMEDOUT when the time is up.
  #
  # A handle belongs to the process that made it. In a trap handler or a forked child use another one.
  class Control
    USER_COPY = 1 << 7
    CMD_IOCTL_ENCODE = 1 << 6
    COUNT_MAX = 4096
    ID_MAX = (1 << 20) - 1

    # What each kind of recovery is in flags.
    RECOVERY_FLAGS = { none: 0, fail: 1 << 3, reissue: 1 << 3 | 1 << 4, fail_io: 1 << 3 | 1 << 9 }.freeze

    # For messages: the flags that a kernel may lack.
    NEWER_FLAGS = { 1 << 9 => "recovery :fail_io, which came with Linux 6.13" }.freeze

    # Yields a handle and closes it.
    def self.open
      control = new
      yield control
    ensure
      control&.close
    end

    # false: :none. true: :fail, the driver's plainest. Otherwise one of Declarations::RECOVERIES.
    def self.recovery(value)
      kind = { false => :none, nil => :none, true => :fail }.fetch(value, value)
      return kind if RECOVERY_FLAGS.key?(kind)

      raise ArgumentError, "recovery is true, false or one of #{RECOVERY_FLAGS.keys.map(&:inspect).join(", ")}, " \
                           "not #{value.inspect[0, 80]}"
    end

    # Raises UnsupportedError.
    def initialize
      UBLK.ensure_supported!
      @native = Native::Control.new
    end

    # Makes a device, which is dead until it is started; id nil: the kernel chooses. The kernel makes no more
    # queues than the machine has CPUs: the DeviceInfo has their number. tag: what the kernel keeps with it; this
    # library's own unless given.
    def add_dev(id: nil, queues: 1, depth: 128, max_io_bytes: 524_288, recovery: false, tag: nil)
      check_count(:queues, queues)
      check_count(:depth, depth)
      Params.check_max_io(max_io_bytes)
      check_id(id) unless id.nil?
      wanted = USER_COPY | CMD_IOCTL_ENCODE | RECOVERY_FLAGS.fetch(Control.recovery(recovery))
      check_flags(wanted, @native.features | CMD_IOCTL_ENCODE)
      info = DeviceInfo.from_native(@native.add(id, queues, depth, max_io_bytes, wanted, tag || Control.new_tag))
      check_added(info, wanted, depth, max_io_bytes)
      info
    end

    def self.new_tag = DeviceInfo::TAG_MAGIC << 32 | Random.rand(1 << 32)

    # Before the start only.
    def set_params(id, params)
      @native.set_params(id, params.to_native)
      params
    end

    # The Params that the kernel has.
    def get_params(id) = Params.from_native(@native.get_params(id))

    # Returns once the disk is there. The kernel waits until all queues are fetched by this process and reads the
    # partition table, so the threads that serve must be at work. pid: the server's, which is this one.
    def start_dev(id, pid: Process.pid)
      check_pid(pid)
      @native.start(id)
    end

    # Removes the disk; its server's queues end. Dirty pages of a device with recovery are lost: `Device#stop`
    # syncs first.
    def stop_dev(id) = @native.stop(id)

    # Stops it if need be. The id is free once nobody has the nodes open.
    def del_dev(id) = @native.delete(id)

    # Both, in the order that does not hold up other devices while this one's last requests are answered.
    def remove(id)
      stop_dev(id)
      del_dev(id)
    end

    # EBUSY as long as the former server is not gone.
    def start_user_recovery(id) = @native.start_recovery(id)

    # As start_dev.
    def end_user_recovery(id, pid: Process.pid)
      check_pid(pid)
      @native.end_recovery(id)
    end

    # Makes a start_dev or end_user_recovery that waits raise ECANCELED, and all later ones of this handle.
    def cancel = @native.cancel

    def get_dev_info(id) = DeviceInfo.from_native(@native.info(id))

    # A DeviceInfo for every ublk device of this host that can be asked, whoever made it.
    def list
      @native.ids.filter_map do |id|
        get_dev_info(id)
      rescue SystemCallError
        nil
      end
    end

    # start_user_recovery, tried again every 10 ms while the former server is not gone, for up to seconds.
    def prepare_recovery(info, seconds: 10)
      finish_round(info) if @native.rounds_last? && info.queues > 1
      retry_while_busy(seconds) { start_recovery(info) }
    end

    # Idempotent.
    def close = @native.close

    private

    def check_count(name, count)
      return if count.is_a?(Integer) && count.between?(1, COUNT_MAX)

      raise ArgumentError, "#{name} must be an Integer from 1 to #{COUNT_MAX}, not #{count.inspect[0, 80]}"
    end

    def check_id(id)
      return if id.is_a?(Integer) && id.between?(0, ID_MAX)

      raise ArgumentError, "id must be an Integer from 0 to #{ID_MAX}, not #{id.inspect[0, 80]}"
    end

    # The kernel wants the process that opened the device, and that is where its threads are.
    def check_pid(pid)
      raise ArgumentError, "only this process, #{Process.pid}, serves here, not #{pid}" unless pid == Process.pid
    end

    # The kernel masks in silence what it does not know.
    def check_flags(wanted, there)
      missing = wanted & ~there
      return if missing.zero?

      what = NEWER_FLAGS.find { |flag, _| missing.anybits?(flag) }&.last || format("flags %#x", missing)
      raise UnsupportedError, "this kernel's ublk driver lacks #{what}"
    end

    def check_added(info, wanted, depth, max_io_bytes)
      check_flags(wanted, info.flags)
      return if info.depth == depth && info.max_io_bytes == max_io_bytes

      raise DeviceError, "the kernel made depth #{info.depth} and max_io_bytes #{info.max_io_bytes} of #{depth} and " \
                         "#{max_io_bytes}"
    rescue Error
      del_dev(info.id)
      raise
    end

    def retry_while_busy(seconds)
      deadline = now + seconds
      begin
        yield
      rescue Errno::EBUSY
        raise if now > deadline

        sleep 0.01
        retry
      end
    end

    # Up to Linux 6.14 a server that died while it fetched leaves a round that has to be finished first, and the
    # kernel says EINVAL: service/activation-round.c.
    def start_recovery(info)
      start_user_recovery(info.id)
    rescue Errno::EINVAL
      raise unless @native.rounds_last?

      finish_round(info)
      retry_while_busy(1) { start_user_recovery(info.id) }
    end

    def finish_round(info)
      retry_while_busy(10) { @native.finish_round(info.id, info.queues, info.depth) }
    rescue SystemCallError => e
      raise if e.is_a?(Errno::EBUSY)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
