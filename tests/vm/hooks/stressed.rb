# frozen_string_literal: true

require "/usr/lib/ublk-ruby/hooks/file"

# The stock file disk; after a flush the collector runs at every allocation.
class Stressed < FileDisk
  def flush
    super
    GC.stress = true
  end
end
