# frozen_string_literal: true

require "ublk/errors"
require "ublk/sys"

module UBLK
  # Keeps a hook from taking its worker away by mistake. In the process that serves, and not in its children:
  #
  # * `exec` and `Process.daemon` raise UBLK::Error: systemd would go on to watch a process that serves nothing.
  #   `system`, `spawn`, backquotes and `fork { exec … }` work as ever.
  # * `trap` of a signal by which the worker is told to hand over (TERM, INT, HUP, USR2) has no effect, and says
  #   so.
  # * `exit!` does what it says: the process ends, and the device is recovered by the next one. But for the statuses by which
  #   the worker says that it hands over, or that there is nothing to recover (service/exit-status.h): they become 1.
  module Guard
    # Go in front of Ruby's own.
    module Calls
      def exec(...)
        Guard.refuse("exec")
        super
      end

      def exit!(status = false) = super(Guard.exit_status(status))

      def daemon(...)
        Guard.refuse("Process.daemon")
        super
      end

      def trap(signal, ...)
        super.tap { Guard.put_back(signal) }
      end
    end

    class << self
      # Once per process.
      def install
        @owner = Process.pid
        return if @installed

        @installed = true
        Kernel.prepend(calls(:exec, :exit!, :trap).module_eval { private(*instance_methods(false)) && self })
        { Kernel => %i[exec exit! trap], Process => %i[exec exit! daemon], Signal => %i[trap] }.each do |receiver, names|
          receiver.singleton_class.prepend(calls(*names))
        end
      end

      # Whether this is the process that serves, and no child of it.
      def serving? = Process.pid == @owner

      def refuse(what)
        raise Error, "#{what} would end the process that serves the device" if serving?
      end

      # What `exit!` ends the process with that was told to end with status: an Integer, of which the kernel takes 8 bits, true or
      # false.
      def exit_status(status)
        return status unless serving? && status.respond_to?(:to_int)

        Sys.reserved_statuses.include?(status.to_int & 0xff) ? 1 : status
      end

      # After a trap.
      def put_back(signal)
        return unless serving? && Sys.restore_signals

        warn "trap #{signal}: this signal is the worker's own and stays so"
      rescue SystemCallError, IOError
        nil # $stderr was closed
      end

      private

      # A module with these of the methods below.
      def calls(*names)
        Calls.dup.module_eval do
          (instance_methods(false) - names).each { |name| remove_method(name) }
          self
        end
      end
    end
  end
end
