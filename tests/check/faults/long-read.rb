# frozen_string_literal: true

# expect: long-read
# Returns one byte more than was asked for.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length) = super << "\0"
end
