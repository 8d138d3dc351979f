# frozen_string_literal: true

# expect: wrong-type
# write returns nil.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data) = super && nil
end
