# frozen_string_literal: true

# expect: misplaced
# Offsets wrap at 8 KiB.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length) = super(offset % 8192, length)
  def write(offset, data) = super(offset % 8192, data)
end
