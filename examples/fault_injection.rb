require "ublk/autorun"
require_relative "ram_disk"

# A disk with a bad spot: reads and writes that touch it fail. For trying out what is above the disk.
#
#   ublkctl create bad fault_injection size=256M bad_at=64M bad_length=1M
#   ruby examples/fault_injection.rb size=256M bad_at=64M bad_length=1M
#
# A policy is one method: what it returns is nil to go on, or the error. The layer Fault, which comes with the service,
# can do more.
class FaultInjection < UBLK::Policy
  def initialize(target, at:, length:)
    super(target)
    @bad = at...at + length
  end

  def before(op, offset, length)
    Errno::EIO if %i[read write].include?(op) && offset < @bad.end && offset + length > @bad.begin
  end
end

option :bad_at, :bytes, default: "64M", doc: "where the bad spot begins"
option :bad_length, :bytes, default: "1M", doc: "of the bad spot"

use FaultInjection, at: arg(:bad_at), length: arg(:bad_length)
run RamDisk
