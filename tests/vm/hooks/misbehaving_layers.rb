# A stack of policies, one of them of its own, over a disk in a file without discard.
class Quota < UBLK::Policy
  def initialize(target, most:)
    super(target)
    @most = most
  end

  def before(op, offset, length) = (Errno::ENOSPC if op == :write && offset + length > @most)
end

class Plain < UBLK::Target
  option :path, :path, required: true
  recovery :reissue

  def initialize(path:)
    @file = File.open(path, "rb")
    super(size: @file.size)
  end

  def read(offset, length) = @file.pread(length, offset)
  def read_only? = true
end

option :quota, :bytes, required: true
option :trigger, :path, default: "/nonexistent"

use Stats, every: 1
use Quota, most: arg(:quota)
use Fault, ops: :read, range: 4096...8192, errno: "EILSEQ", trigger: arg(:trigger)
use Cow, overlay: arg(:path) { |path| "#{path}.cow" }
use Verify, learn: true
run Plain
