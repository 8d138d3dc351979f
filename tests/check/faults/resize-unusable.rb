# frozen_string_literal: true

# expect: resize-unusable
# What it has won can't be reached: the bounds are those of the start.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def initialize(...)
    super
    @limit = size
  end

  def read(offset, length)
    raise Errno::EINVAL if offset + length > @limit

    super
  end
end
