# frozen_string_literal: true

# expect: buffer-kept
# The buffers of writes wait in a list, and are written when something is read.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write_from(buffer, offset)
    (@waiting ||= []) << [offset, buffer]
    buffer.size
  end

  def read_into(buffer, offset)
    while @waiting&.any?
      at, waiting = @waiting.shift
      waiting.pwrite(@file, at)
    end
    super
  end
end
