require "ublk/autorun"

# A disk in memory, which ends with the process that serves it.
#
#   ublkctl create ram ram_disk size=64M        as a hook, in /etc/ublk-ruby/hooks
#   ruby examples/ram_disk.rb size=64M          as a program, as root; RUBYLIB=/usr/lib/ublk-ruby/ruby
class RamDisk < UBLK::Target
  ZEROES = ("\0".b * (1 << 20)).freeze

  option :size, :bytes, default: "256M", doc: "of the disk"

  # One byte more than the disk has: a slice up to a String's end shares its memory, and the next write to the
  # String would copy all of it.
  def initialize(size:)
    super
    @bytes = "\0".b * (size + 1)
  end

  def read(offset, length) = @bytes.byteslice(offset, length)

  def write(offset, data)
    @bytes[offset, data.bytesize] = data
    data.bytesize
  end

  def write_zeroes(offset, length)
    finish = offset + length
    offset.step(finish - 1, ZEROES.bytesize) { |at| write(at, ZEROES.byteslice(0, finish - at)) }
  end

  alias discard write_zeroes
end
