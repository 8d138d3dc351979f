# frozen_string_literal: true

# expect: flush-lost
# What is a hole is known to the process only.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def holes = @holes ||= {}

  def write(offset, data)
    data.bytesize.fdiv(512).ceil.times { |n| holes[offset / 512 + n] = true }
    super
  end

  def read(offset, length)
    (0...length / 512).map { |n| holes[offset / 512 + n] ? super(offset + 512 * n, 512) : "\0".b * 512 }.join
  end
end
