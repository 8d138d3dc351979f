# frozen_string_literal: true

# expect: shifted-read
# A read that crosses a 4 KiB boundary is put together from two: the second one goes one byte too far.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read_into(buffer, offset)
    first = 4096 - offset % 4096
    return super if first >= buffer.size

    buffer.pread(@file, offset, 0, first)
    buffer.fill(0, first, 1)
    buffer.pread(@file, offset + first, first + 1, buffer.size - first - 1)
    buffer.size
  end
end
