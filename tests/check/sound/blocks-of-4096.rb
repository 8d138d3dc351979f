# frozen_string_literal: true

# A disk in memory, of blocks of 4096.
class Logged < UBLK::Target
  option :size, :bytes, default: "2M"
  recovery :none

  def initialize(size:)
    super
    @blocks = Hash.new("\0".b * 4096)
    @lock = Mutex.new
  end

  def logical_block_size = 4096

  def read(offset, length) = @lock.synchronize { blocks(offset, length).map { |n| @blocks[n] }.join }

  def write(offset, data)
    @lock.synchronize { blocks(offset, data.bytesize).each_with_index { |n, i| @blocks[n] = data.byteslice(i * 4096, 4096) } }
    data.bytesize
  end

  def discard(offset, length) = @lock.synchronize { blocks(offset, length).each { |n| @blocks.delete(n) } } && 0

  private

  def blocks(offset, length) = offset / 4096...(offset + length) / 4096
end
