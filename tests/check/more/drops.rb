# frozen_string_literal: true

# expect: write-lost
# write stores nothing.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(_offset, data) = data.bytesize
end
