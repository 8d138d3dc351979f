# frozen_string_literal: true

require "ublk/abilities"
require "ublk/control"
require "ublk/device_owner"
require "ublk/device_serving"
require "ublk/params"

module UBLK
  # A disk served by this very process: `UBLK::Device.create(RamDisk.new(size: 1 << 28)).run`. Each queue has a Ruby
  # thread, which calls the target. Needs root; see Control.
  #
  # A device is deleted when the process ends, unless it was made with `recovery:` and has been started: then it
  # waits in the kernel for `Device.recover`, as it does after a crash, and I/O waits with it.
  #
  # Nothing here works in a trap handler: there, start a Thread. A forked child has no part in the device.
  class Device
    include Serving
    extend Owner

    class << self
      # target: a UBLK::Target, or layers round one; queues and depth are its own unless given. id: nil for one that
      # the kernel chooses. recovery: false, true (what the target's class declares, :reissue if that is nothing) or
      # one of Declarations::RECOVERIES. mlock: locks all memory of the process when it starts.
      # Raises ArgumentError, HookError, UnsupportedError, Errno::EEXIST; nothing is left behind then.
      def create(target, id: nil, queues: innermost(target).queues, depth: innermost(target).depth,
                 max_io_bytes: 524_288, recovery: false, mlock: true)
        check_target(target)
        params = Params.from_target(target, max_io_bytes: max_io_bytes)
        open_device(target, params, mlock) do |control, tag|
          info = control.add_dev(id: id, queues: queues, depth: depth, max_io_bytes: max_io_bytes,
                                 recovery: kind_of_recovery(target, recovery), tag: tag)
          control.set_params(info.id, params)
          info
        end
      end

      # Takes over a device of this library whose server is gone. The target must be the same disk: size, block
      # sizes and read_only. Waits up to 10 seconds for the former server to be gone, then Errno::EBUSY.
      # A target with a file that is locked (see FileLock) has waited for that one as it was made; the process that handed the
      # device over gives the same target again, which still has the lock.
      def recover(target, id:, mlock: true)
        check_target(target)
        control = Control.new
        info = control.get_dev_info(id)
        params = Params.from_target(target, max_io_bytes: info.max_io_bytes)
        check_recoverable(info)
        check_same(control, info, params)
        control.prepare_recovery(info)
        own(new(target, info: info, params: params, control: control, mlock: mlock, recovering: true))
      rescue Exception
        control&.close
        raise
      end

      # A DeviceInfo for each ublk device of this host, whoever made it.
      def list = Control.open(&:list)

      # Deletes every device that this library made, in whatever process; other programs' stay. One that can't be
      # deleted does not keep the others; its error is raised at the end.
      def delete_all!
        owned.each { |device| forget_errors { device.delete } }
        errors = []
        Control.open do |control|
          control.list.select(&:ours?).each { |info| errors.concat(forget_errors { control.remove(info.id) }) }
        end
        raise errors.first unless errors.empty?
      end

      private

      def check_target(target)
        return if Abilities.supports?(target, :read) && (Abilities.supports?(target, :write) || target.read_only?)

        raise HookError, "#{target.class} must define read(offset, length), and write(offset, data) unless it is " \
                         "read_only?"
      end

      # Whatever happens between the kernel's making of it and ours.
      def open_device(target, params, mlock)
        tag = Control.new_tag
        control = Control.new
        info = yield control, tag
        own(new(target, info: info, params: params, control: control, mlock: mlock))
      rescue Exception
        forget_errors { control.list.each { |found| control.del_dev(found.id) if found.tag == tag } } if control
        control&.close
        raise
      end

      def kind_of_recovery(target, value)
        return value unless value == true

        target = target.target while Abilities.layer?(target) && target.class.recovery == :none
        declared = target.class.recovery
        declared == :none ? :reissue : declared
      end

      def innermost(target)
        target = target.target while Abilities.layer?(target)
        target
      end

      def check_recoverable(info)
        reason = "another program made it" unless info.ours?
        reason ||= "it was made without recovery" unless info.recovery?
        reason ||= "it is stopped" if info.state.zero?
        raise DeviceError, "ublk device #{info.id} can't be recovered: #{reason}" if reason
      end

      def check_same(control, info, params)
        differences = control.get_params(info.id).differences(params)
        return if differences.empty?

        raise DeviceError, "ublk device #{info.id} is another disk than the target: #{differences.join("; ")}"
      end
    end

    attr_reader :target, :info, :params

    # For create and recover, and for tests.
    def initialize(target, info:, params:, control:, mlock: true, recovering: false, server: nil)
      @target = target
      @info = info
      @params = params
      @control = control
      @mlock = mlock
      @recovered = recovering
      @server_class = server
      @state = recovering ? :recovering : :added
      prepare_serving
    end

    def id = info.id

    # The disk, and the node that this process holds.
    def path = info.path
    def char_path = info.char_path

    # :added, :recovering, :live, :stopped, :handed_over, :failed or :deleted.
    attr_reader :state

    def live? = state == :live

    # Whether the device outlives its server.
    def recovery? = info.recovery?

    # Makes the disk live and returns. threads: as many as the device has queues, or :auto. No-op if it is live.
    # Raises DeviceError for a device that is deleted or was stopped; if the start itself fails the device can only
    # be deleted.
    def start(threads: :auto)
      check_caller
      @lock.synchronize { start_locked(threads) }
      self
    end

    # Takes the disk away, after syncing it, and waits for the threads; raises what ended one of them early. Then it is not
    # synced, which would wait for ever: a warning says so, and `hand_over` keeps what is not yet written. Clients that still use the disk get errors. No-op if it is not live.
    def stop
      check_caller
      @lock.synchronize { stop_locked }
      raise_failure
      self
    end

    # Stops serving and leaves the disk in the kernel, where I/O waits for `Device.recover`. Only with recovery.
    # Requests in hand are answered first.
    def hand_over(limit: nil)
      raise DeviceError, "ublk device #{id} was made without recovery: it can't be handed over" unless recovery?

      check_caller
      @lock.synchronize { hand_over_locked(limit) }
      raise_failure
      self
    end

    # Stops it and removes it from the kernel, even if a thread failed; then raises that. Idempotent.
    def delete(limit: nil)
      check_caller
      @lock.synchronize { delete_locked(limit) }
      raise_failure
      self
    end

    # What becomes of it when its process ends: what can go on with another server stays. limit: seconds.
    def settle(limit)
      return delete(limit: limit) unless recovery? && (live? || %i[recovering failed].include?(state) && @recovered)

      live? ? hand_over(limit: limit) : Device.disown(self)
    end

    # Starts if need be, and blocks until the device is stopped, by `stop` in another thread or from outside, or
    # this thread is interrupted: Interrupt makes it return, any other exception goes through. Either way the device
    # is stopped then, or handed over if it has recovery.
    def run(threads: :auto)
      raise UnsupportedError, "there is no Native::Server: #{UBLK.native_load_error&.message}" unless server_class

      start(threads: threads)
      wait
      self
    rescue Interrupt
      self
    ensure
      leave
    end

    # Counters over all queues since the start: requests, completed, failed, read_bytes, written_bytes, in_flight.
    def statistics = @server&.statistics || {}

    # What the target did wrong last: class, message, place; nil if nothing.
    def last_error = @server&.last_error

    def inspect = "#<#{self.class} #{path} #{state} #{target.class}>"
  end
end
