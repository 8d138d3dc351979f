# frozen_string_literal: true

# expect: write-zeroes
# write_zeroes says that it did, and did nothing.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write_zeroes(_offset, _length, unmap: true) = 0
end
