# frozen_string_literal: true

# Which device the hook serves. Set by the worker before the script is loaded.
module UBLK
  @device_name = nil
  @read_only = false

  class << self
    # The device's name, a String such as "disk0"; nil in a plain Ruby program. What a hook keeps on disk is keyed by it
    # (see state_directory), never by the kernel's id, which is used again.
    attr_reader :device_name

    # Whether the device was asked to be read-only, whatever the hook could do. Then `write`, `discard` and
    # `write_zeroes` are never called.
    def read_only? = @read_only

    # For the worker, not for hooks. state: the path of the device's state directory, which is made when it is first asked
    # for; state_owner: whose it is, an Integer. nil: as in a plain program.
    def serve_device(name, read_only:, state: nil, state_owner: nil)
      @device_name = name
      @read_only = read_only
      @state_directory = nil
      @state = state && [state, state_owner]
    end
  end
end
