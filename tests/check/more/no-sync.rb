# frozen_string_literal: true

# expect: flush-no-sync
# flush leaves the data to the page cache.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def flush = 0
end
