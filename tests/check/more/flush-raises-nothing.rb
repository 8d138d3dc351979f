# frozen_string_literal: true

# expect: error-swallowed
# flush does not say that it failed.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def flush
    super
  rescue SystemCallError
    warn "flush failed"
  end
end
