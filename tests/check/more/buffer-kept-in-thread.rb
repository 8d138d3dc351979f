# frozen_string_literal: true

# expect: buffer-kept
# A thread writes down what write_from was given, and swallows what that raises.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write_from(buffer, offset)
    Thread.new do
      sleep 0.001
      buffer.pwrite(@file, offset)
    rescue UBLK::BufferError
      nil
    end
    buffer.size
  end
end
