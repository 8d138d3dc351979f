# frozen_string_literal: true

# expect: stuck
# Waits for what never comes.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def write(offset, data)
    sleep if offset == 16_384
    super
  end
end
