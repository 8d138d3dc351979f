# frozen_string_literal: true

# expect: error-swallowed
# Where the image can't be read it makes up zeroes.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length)
    super
  rescue SystemCallError
    "\0".b * length
  end
end
