# frozen_string_literal: true

module UBLK
  # The root of what this library raises itself. A hook reports its own errors as it likes: `Errno::X` reaches
  # the client as that errno, everything else as EIO.
  class Error < StandardError
  end

  # A method of a target returned what its contract does not allow, such as a String that is too short.
  class ContractError < Error
  end

  # Raised in a method of a target that takes longer than `hook-timeout`; the client gets ETIMEDOUT. No StandardError,
  # so that no `rescue => e` on its way takes it for something else.
  class HookTimeout < Exception # rubocop:disable Lint/InheritException
  end

  # The script is no hook: no target in it, or several, or one that lacks a method.
  class HookError < Error
  end

  # There is no such script.
  class NoHookError < Error
  end

  # A UBLK::Memory can't be had: its data is lost, it had another size, or it is asked for too late.
  class MemoryError < Error
  end

  # A UBLK::Buffer is used after its request has been answered, or a write's is changed.
  class BufferError < Error
  end

  # An argument of the device is unknown, missing, or of the wrong type.
  class ArgumentsError < Error
  end

  # The unit of the device is without something that the hook declares. The service gives it and starts the unit again.
  class NeedsError < Error
    # Words of service/needs.h.
    attr_reader :needs

    def initialize(message, needs)
      super(message)
      @needs = needs
    end
  end
end
