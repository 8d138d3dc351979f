# frozen_string_literal: true

# expect: geometry-changes
# The size is another one each time.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def size = super - 512 * (@asked = @asked.to_i + 1)
end
