# frozen_string_literal: true

# expect: short-write
# Says that it wrote one byte less than it did.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data) = super - 1
end
