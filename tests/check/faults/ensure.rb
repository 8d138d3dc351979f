# frozen_string_literal: true

# expect: ensure-hides-error
# An ensure returns, and the error that was on its way is gone.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data)
    super
  ensure
    return data.bytesize
  end
end
