# frozen_string_literal: true

# expect: write-order
# Writes wait until somebody reads or flushes, and are then done last one first.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  alias write_now write

  def write(offset, data)
    (@waiting ||= []) << [offset, data]
    data.bytesize
  end

  def settle = (write_now(*@waiting.pop) while @waiting&.any?)

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
