# frozen_string_literal: true

# expect: last-block
# The last block can't be read.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length)
    raise RangeError, "beyond the end of the disk" if offset + length >= size

    super
  end
end
