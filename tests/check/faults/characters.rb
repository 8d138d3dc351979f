# frozen_string_literal: true

# expect: encoding
# The length of what is read is counted in characters.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def read(offset, length)
    text = super(offset, [2 * length, size - offset].min).force_encoding(Encoding::UTF_8)
    text[0, length]
  end
end
