# frozen_string_literal: true

# expect: process-ended
# exit! takes the process away.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def flush = exit!(0)
end
