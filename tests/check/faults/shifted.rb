# frozen_string_literal: true

# expect: shifted-read
# One byte is shifted where a read crosses a 4 KiB boundary.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length)
    data = super
    first = 4096 - offset % 4096
    return data if first >= length

    data.byteslice(0, first) << "\0" << data.byteslice(first, length - first - 1)
  end
end
