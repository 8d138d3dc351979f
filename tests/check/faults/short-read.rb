# frozen_string_literal: true

# expect: short-read
# Returns one byte less than was asked for.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length) = super.byteslice(0, length - 1)
end
