# frozen_string_literal: true

# What a hook script may use. In a worker all of it is loaded before the script; `require "ublk"` there does
# nothing.
module UBLK
end

require "ublk/errors"
require "ublk/device"
require "ublk/sys"
require "ublk/target"
