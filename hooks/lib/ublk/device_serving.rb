# frozen_string_literal: true

require "ublk/native"

module UBLK
  class Device
    # The threads that serve a device, and the steps from one state to the next. Public methods are in Device; the
    # lock is theirs.
    module Serving
      # How long the kernel takes to see that a server has let go.
      SETTLE_SECONDS = 10
      # How long a deleted device may keep its id while others have it open.
      GONE_SECONDS = 2
      # How often it is looked whether a sync is still answered.
      SYNC_PAUSE = 0.05

      private

      def prepare_serving
        @pid = Process.pid
        @lock = Mutex.new
        @events = Queue.new # a queue's number: it is fetched; [number, end, error]: it has ended
        @threads = []
        @failure = nil
      end

      def server_class
        @server_class || (Native.const_defined?(:Server) ? Native::Server : nil)
      end

      def start_locked(threads)
        return if @state == :live

        check_startable(threads)
        Native.lock_memory! if @mlock && Native.respond_to?(:lock_memory!)
        command = @recovered ? :end_user_recovery : :start_dev
        @state = :failed
        serve_queues
        wait_for_kernel(command)
        @state = :live
      rescue Exception
        abandon if @state == :failed
        raise
      end

      def check_startable(threads)
        unless %i[added recovering].include?(@state)
          raise DeviceError, "ublk device #{id} can't be started: it is #{@state.to_s.tr("_", " ")}"
        end
        return if threads == :auto || threads == info.queues

        raise ArgumentError, "threads must be :auto or #{info.queues}, the number of queues, not #{threads.inspect}"
      end

      # Returns when every queue is fetched: from then on each is served.
      def serve_queues
        @server = server_class.new(id, info.queues, info.depth, info.max_io_bytes)
        @threads = Array.new(info.queues) { |queue| Thread.new { serve(queue) } }
        fetched = 0
        while fetched < info.queues
          event = @events.pop
          raise event[2] || DeviceError.new("queue #{event[0]} ended before the device was live") if event.is_a?(Array)

          fetched += 1
        end
      end

      # In a thread of its own, so that this one can be interrupted.
      def wait_for_kernel(command)
        starter = Thread.new do
          Thread.current.report_on_exception = false
          @control.public_send(command, id)
        end
        starter.value
      rescue Errno::ECANCELED
        raise @failure || DeviceError.new("the start of ublk device #{id} was cancelled")
      ensure
        if starter&.alive?
          @control.cancel
          starter.join
        end
      end

      def serve(queue)
        Thread.current.report_on_exception = false
        Thread.current.name = "ublk#{id}:#{queue}"
        ending = @server.run(queue, target, @events)
      rescue Exception => e # rubocop:disable Lint/RescueException: whatever ends it is reported by stop
        error = e
      ensure
        # A queue that nobody serves must not keep a start waiting, nor the disk alive.
        error ||= DeviceError.new("the thread of queue #{queue} was killed") unless ending
        @failure ||= error
        @events << [queue, ending, error]
        @control.cancel unless ending
      end

      # Until some queue ends.
      def wait
        event = @events.pop until event.is_a?(Array)
        @events << event
      end

      # What `run` does in the end. A queue that ended by an error is no reason to take a disk away that can go on
      # with another server.
      def leave
        @lock.synchronize do
          next unless @state == :live

          keep = recovery? && (@failure || @threads.all?(&:alive?))
          keep ? hand_over_locked(nil) : stop_locked
        end
        raise_failure
      end

      def stop_locked
        return unless @state == :live

        sync if recovery?
        # Queues that lost their thread would keep the kernel waiting.
        lost = queue_lost?
        lost ? @server.close : ignore_gone { @control.stop_dev(id) }
        finish(nil)
        ignore_gone { @control.stop_dev(id) } if lost
        @state = :stopped
      end

      def hand_over_locked(limit)
        return if @state == :handed_over
        raise DeviceError, "ublk device #{id} is not live" unless @state == :live

        finish(limit)
        wait_until_quiesced
        @state = :handed_over
        Device.disown(self)
      end

      def delete_locked(limit)
        return if @state == :deleted

        stop_for_delete(limit)
        begin
          ignore_gone { @control.del_dev(id) }
          wait_until_gone
          @state = :deleted
          Device.disown(self)
        ensure
          @control.close if @state == :deleted
        end
      end

      # A failure of the stop must not keep it from being deleted.
      def stop_for_delete(limit)
        return unless @state == :live

        limit ? stop_in_time(limit) : stop_locked
      rescue SystemCallError => e
        @failure ||= e
        finish(limit || SETTLE_SECONDS)
      end

      # At the end of the process.
      def stop_in_time(limit)
        ignore_gone { @control.stop_dev(id) }
        finish(limit)
        @state = :stopped
      end

      # After a failed start: the device that was recovered goes on waiting, the new one can only be deleted.
      def abandon
        @control.cancel
        finish(SETTLE_SECONDS)
      rescue StandardError => e
        @failure ||= e
      end

      # Ends the threads and lets go of the device. limit: seconds for all of them; what is stuck then stays.
      def finish(limit)
        return unless @server

        @server.close
        deadline = limit && now + limit
        stuck = @threads.reject { |thread| thread.join(deadline && [deadline - now, 0].max) }
        raise DeviceError, "#{stuck.size} of the queues of ublk device #{id} are stuck in the target" unless stuck.empty?

        wait_for_tasks(deadline || now + SETTLE_SECONDS) unless @threads.all? { |thread| thread.value == :stopped }
        @server.release
      end

      # Linux up to 6.14 hands a request that comes just when a ring is closed to the task that served it, if that lives
      # on, and never takes it back: the device then stays live for ever, and holds the id as well. Ruby 3.1 keeps the
      # task of a thread for three seconds more, for the next thread.
      def wait_for_tasks(deadline)
        poll(deadline - now) { @server.tasks.none? { |task| File.exist?("/proc/self/task/#{task}") } }
      end

      # Whether some queue is served no more, though the disk was not stopped.
      def queue_lost? = @failure || @threads.any? { |thread| !thread.alive? && thread.value != :stopped }

      # STOP_DEV throws the dirty pages of a device with recovery away. But what is for a queue that lost its thread is never
      # answered, and a thread that waits for that can't be interrupted: so it is another one's to wait.
      def sync
        syncing = Thread.new { sync_node } unless queue_lost?
        nil until queue_lost? || syncing.join(SYNC_PAUSE)
        return unless syncing.nil? || syncing.alive?

        complain "#{path} can't be synced before it is stopped, as one of its queues has lost its thread: what is not yet " \
                 "written is lost"
      end

      def sync_node
        File.open(path, "rb", &:fsync)
      rescue Errno::ENOENT, Errno::ENXIO
        nil
      rescue SystemCallError => e
        complain "#{path} could not be synced before it is stopped: #{e.message}"
      end

      # It is stopped whether that can be read or not.
      def complain(text)
        warn "ublk: #{text}"
      rescue SystemCallError, IOError
        nil
      end

      def ignore_gone
        yield
      rescue Errno::ENODEV
        nil
      end

      def wait_until_quiesced
        poll(SETTLE_SECONDS) { !@control.get_dev_info(id).live? }
      end

      def wait_until_gone
        poll(GONE_SECONDS) { @control.get_dev_info(id) && false }
      rescue Errno::ENODEV
        nil
      end

      def poll(seconds)
        deadline = now + seconds
        sleep 0.005 until yield || now > deadline
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # The target would wait for itself, and a forked child has no part in it.
      def check_caller
        raise "ublk device #{id} belongs to process #{@pid}, which forked" unless @pid == Process.pid
        return unless @threads.include?(Thread.current)

        raise DeviceError, "ublk device #{id} can't be stopped by its own target: use another thread"
      end

      def raise_failure
        failure = @failure or return
        @failure = nil
        raise failure
      end
    end
  end
end
