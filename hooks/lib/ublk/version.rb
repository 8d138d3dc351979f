# frozen_string_literal: true

module UBLK
  # That of the whole project: meson.build has it as well.
  VERSION = "0.1.0"
end
