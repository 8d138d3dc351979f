# frozen_string_literal: true

# expect: write-tail
# Leaves out the last sector of a longer write, and says that it wrote all.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data)
    super(offset, data.byteslice(0, [data.bytesize - 512, 512].max))
    data.bytesize
  end
end
