require_relative "remember"

class Freeze < UBLK::Policy              # while /run/freeze is there, nothing is written
  def before(op, _offset, _length) = op == :write && File.exist?("/run/freeze") ? Errno::EROFS::Errno : nil
end

use RateLimit, iops: 20_000
use Stats
use Freeze
run Remember
