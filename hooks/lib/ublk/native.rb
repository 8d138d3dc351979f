# frozen_string_literal: true

require "ublk/abilities"
require "ublk/description"
require "ublk/errors"

module UBLK
  # This host can't serve ublk devices.
  class UnsupportedError < Error
  end

  # A device is not in a state that allows what was asked for, or the kernel's is another than expected.
  class DeviceError < Error
  end

  @native_load_error = nil
  begin
    # A worker has its own engine, and defines UBLK::Sys before it loads anything of Ruby.
    require "ublk.so" unless const_defined?(:Sys, false)
  rescue LoadError => e
    @native_load_error = e
  end

  class << self
    # Why the extension did not load, an exception; nil if it did. `require "ublk"` works all the same: targets
    # can be written and tested anywhere.
    attr_reader :native_load_error

    # Whether this process can make devices: the extension, the control device, io_uring, and a driver with
    # USER_COPY.
    def supported? = unsupported_reason.nil?

    # Raises UnsupportedError, which says what is missing.
    def ensure_supported!
      reason = unsupported_reason or return
      raise UnsupportedError, "ublk devices need Linux 6.6 or later with the module ublk_drv, and the extension of " \
                              "this library, which needs liburing: #{reason}"
    end

    private

    def unsupported_reason
      return @native_load_error.message if @native_load_error
      return "control device unavailable: in a worker devices are the service's" unless Native.respond_to?(:supported?)

      reason = Native.unsupported_reason
      "control device unavailable: #{reason}" if reason
    end
  end

  # What C and Ruby need of each other. The methods and classes that do the work come from the extension.
  module Native
    class << self
      # What a serving loop has to know of a target, beside its methods.
      def facts(target)
        { **Abilities.forms(target, "auto"),
          read_only: target.read_only? ? true : false,
          can_discard: Abilities.supports?(target, :discard),
          can_write_zeroes: Abilities.supports?(target, :write_zeroes),
          takes_unmap: Abilities.takes_unmap?(target) }
      end

      # [kind, errno, class, message, file, line, backtrace] of an exception that a target raised.
      def describe(error, _method)
        [Description.kind(error), Description.errno(error), Description.class_name(error),
         Description.message(error), *origin(error), Description.backtrace(error)]
      end

      private

      # Where it was raised, be it in the target or in what that calls.
      def origin(error)
        match = Description::FRAME.match(Description::BACKTRACE.bind_call(error)&.first.to_s)
        match ? [match[1], match[2].to_i] : [nil, nil]
      end
    end
  end
end
