# frozen_string_literal: true

# expect: buffer-unfilled
# The last block of a long read is left as it was.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read_into(buffer, offset)
    return super if buffer.size <= 4096

    buffer.pread(@file, offset, 0, buffer.size - 512)
    buffer.size
  end
end
