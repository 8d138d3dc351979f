# frozen_string_literal: true

require "/usr/lib/ublk-ruby/hooks/file"

# For measuring: the stock file disk with its image opened O_DIRECT, as ublksrv's loop opens it. For the buffer form, whose memory
# is aligned.
class Direct < FileDisk
  def initialize(path:, size: nil)
    super
    @file.close
    @file = File.open(path, File::RDWR | File::BINARY | File::DIRECT)
  end
end
