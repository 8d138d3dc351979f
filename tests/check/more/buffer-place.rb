# frozen_string_literal: true

# expect: misplaced
# A write is taken from the buffer's second block on, and ends with its first.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write_from(buffer, offset)
    return super if buffer.size < 1024

    buffer.pwrite(@file, offset, 512)
    buffer.pwrite(@file, offset + buffer.size - 512, 0, 512)
    buffer.size
  end
end
