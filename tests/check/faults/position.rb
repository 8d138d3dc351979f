# frozen_string_literal: true

# expect: thread-race
# Two threads share one file position.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length)
    @file.sysseek(offset)
    @file.sysread(length)
  end

  def write(offset, data)
    @file.sysseek(offset)
    @file.syswrite(data)
  end
end
