require "ublk/autorun"
require_relative "file_disk"

# A quota: so much of the disk may be in use, and a write that would need more fails with ENOSPC. What is discarded may
# be used again. A sparse file that is larger than the space one has for it does not fill that space.
#
#   ublkctl create img quota path=/srv/disk.img limit=500M
#   ruby examples/quota.rb path=/srv/disk.img limit=500M state=/var/lib/quota
#
# A policy goes round any target: write another one in place of FileDisk.
class Quota < UBLK::Policy
  CHUNK = 64 << 10                       # what is counted: the first write to one takes it

  def initialize(target, limit:, state: UBLK.state_directory)
    super(target)
    @most = limit / CHUNK
    @lock = Mutex.new
    @ledger = File.open(File.join(state, "quota"), File::RDWR | File::CREAT | File::BINARY, 0o600)
    @taken = @ledger.read.ljust(chunks(0, size).size, "\0") # 1 for each chunk in use
    @count = @taken.count("\1")
  end

  def before(op, offset, length)
    return unless %i[write write_zeroes].include?(op)

    @lock.synchronize do
      free = chunks(offset, length).select { |n| @taken.getbyte(n).zero? }
      @count + free.size > @most ? Errno::ENOSPC : enter(free, 1)
    end
  end

  # Of the chunks at both ends a part may still be in use.
  def discard(offset, length)
    answer = super
    @lock.synchronize do
      whole = (offset + CHUNK - 1) / CHUNK...(offset + length) / CHUNK
      enter(whole.select { |n| @taken.getbyte(n) == 1 }, 0) unless refused?(answer)
    end
    answer
  end

  # The ledger is as durable as the data.
  def flush
    @ledger.fdatasync
    super
  end

  private

  def chunks(offset, length) = offset / CHUNK..(offset + length - 1) / CHUNK

  def enter(chunks, value)
    chunks.each do |n|
      @ledger.pwrite(value.chr, n)
      @taken.setbyte(n, value)
      @count += value.zero? ? -1 : 1
    end
    nil
  end
end

option :limit, :bytes, required: true, doc: "most bytes that may be in use"
option :state, :path, doc: "directory for the ledger; the service's own if not given"

use Quota, limit: arg(:limit), state: arg(:state)
run FileDisk
