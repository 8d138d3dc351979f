# frozen_string_literal: true

# expect: read-unstable
# A read of more than 64 KiB is made up.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length) = length > 65_536 ? Random.bytes(length) : super
end
