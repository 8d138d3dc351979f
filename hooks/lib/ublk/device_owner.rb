# frozen_string_literal: true

module UBLK
  class Device
    # The devices of this process, and what becomes of them when it ends.
    module Owner
      EXIT_SECONDS = 5

      # Those that this process made or recovered and has not deleted or handed over.
      def owned
        owners[Process.pid]&.dup || []
      end

      # For Device.
      def disown(device) = owners[Process.pid]&.delete(device)

      private

      # A forked child has none of its parent's.
      def owners = @owners ||= {}

      def own(device)
        list = owners[Process.pid] ||= []
        install_exit_handler if list.empty?
        list << device
        device
      end

      def install_exit_handler
        return if @handler_pid == Process.pid

        @handler_pid = pid = Process.pid
        at_exit { settle if Process.pid == pid }
      end

      # Nothing that goes wrong here may keep the process from ending.
      def settle
        owned.each { |device| forget_errors { device.settle(EXIT_SECONDS) } }
      end

      # The error in an Array, or an empty one.
      def forget_errors
        yield
        []
      rescue Exception => e # rubocop:disable Lint/RescueException: also an Interrupt at exit
        [e]
      end
    end
  end
end
