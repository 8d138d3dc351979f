# frozen_string_literal: true

# expect: payload-reused
# The first payload is kept as a buffer, and what comes later is copied into it before it is written.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  alias write_now write

  def write(offset, data)
    @buffer ||= data
    (@waiting ||= []) << [offset, @buffer.replace(data)]
    data.bytesize
  end

  def settle = (write_now(*@waiting.shift) while @waiting&.any?)

  def read(offset, length)
    settle
    super
  end

  def flush
    settle
    super
  end

  def discard(offset, length)
    settle
    super
  end

  def write_zeroes(offset, length, unmap: true)
    settle
    super
  end
end
