# frozen_string_literal: true

# expect: process-ended
# Native code that goes wrong.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def discard(offset, length) = Process.kill(:SEGV, Process.pid) && sleep
end
