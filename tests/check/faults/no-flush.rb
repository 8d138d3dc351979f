# frozen_string_literal: true

# expect: flush-lost
# Writes wait until somebody reads; flush does nothing about them.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  alias write_now write

  def write(offset, data)
    (@waiting ||= []) << [offset, data]
    data.bytesize
  end

  def settle = (write_now(*@waiting.shift) while @waiting&.any?)

  def read(offset, length)
    settle
    super
  end

  def flush = 0

  def discard(offset, length)
    settle
    super
  end

  def write_zeroes(offset, length, unmap: true)
    settle
    super
  end
end
