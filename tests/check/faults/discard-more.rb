# frozen_string_literal: true

# expect: discard-neighbour
# Discards one block more than it should.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def discard(offset, length) = super(offset, [length + 512, size - offset].min)
end
