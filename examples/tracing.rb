require "ublk/autorun"
require_relative "ram_disk"

# Says what is asked of a disk before the disk is: `read 4096+8192`, `flush`. In the journal, or on the program's
# standard error. A layer goes round any target, and whatever it does not define is the target's.
#
#   ublkctl create ram tracing size=64M; journalctl -f -u ublk-ruby-device@0
#   ruby examples/tracing.rb size=64M
#
# The layer Trace, which comes with the service, says how each request ended as well, and how long it took.
class Tracing < UBLK::Around
  def around(op, offset, length)
    tell $stderr, op == :flush ? "flush" : "#{op} #{offset}+#{length}"
    yield
  end
end

use Tracing
run RamDisk
