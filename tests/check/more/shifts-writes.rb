# frozen_string_literal: true

# expect: shifted-write
# A write that crosses 4 KiB goes on one byte too far.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data)
    first = 4096 - offset % 4096
    return super if first >= data.bytesize

    super(offset, data.byteslice(0, first))
    super(offset + first + 1, data.byteslice(first..).byteslice(0..-2))
    data.bytesize
  end
end
