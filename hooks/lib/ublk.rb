# frozen_string_literal: true

# What a hook script may use. In a worker all of it is loaded before the script; `require "ublk"` there does
# nothing. In a program of its own `require "ublk"` works on any host, and `UBLK.supported?` says whether devices
# can be made.
module UBLK
  # Loaded when a hook names them.
  autoload :Around, "ublk/around"
  autoload :FileLock, "ublk/file_lock"
  autoload :Layer, "ublk/layer"
  autoload :Layers, "ublk/layers"
  autoload :Policy, "ublk/policy"
  autoload :Secret, "ublk/secret"

  autoload :Control, "ublk/control"
  autoload :Device, "ublk/device"
  autoload :DeviceInfo, "ublk/device_info"
  autoload :Params, "ublk/params"
end

require "ublk/errors"
require "ublk/version"
require "ublk/device_name"
require "ublk/state_directory"
require "ublk/native"
require "ublk/buffer"
require "ublk/memory"
require "ublk/sys"
require "ublk/target"
