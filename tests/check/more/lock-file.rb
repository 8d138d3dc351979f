# frozen_string_literal: true

# expect: recovery-load
# Finds its own lock after a crash.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def initialize(path:, size: nil)
    super
    File.open("#{path}.lock", File::CREAT | File::EXCL | File::WRONLY)
    at_exit { File.unlink("#{path}.lock") }
  end
end
