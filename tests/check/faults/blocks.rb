# frozen_string_literal: true

# expect: offset-unit
# Offsets are taken as blocks.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length) = super(offset / 512, length)
  def write(offset, data) = super(offset / 512, data)
end
