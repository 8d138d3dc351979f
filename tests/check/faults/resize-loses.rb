# frozen_string_literal: true

# expect: resize-loses
# A disk that is empty when it has been resized.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def resize(bytes)
    @file.truncate(0)
    @file.truncate(bytes)
    bytes
  end
end
