# frozen_string_literal: true

# A disk in memory. Sparse: what was never written, or was discarded, takes none. It survives its worker, since systemd
# keeps the memory, but not its unit: once that is stopped, or the machine is, its data is gone.
class MemoryDisk < UBLK::Target
  option :size, :bytes, required: true, doc: "size of the disk"
  recovery :reissue # the next worker finds what this one wrote

  def initialize(size:)
    super
    @memory = UBLK::Memory.new(size)
  end

  def read(offset, length) = @memory.read(offset, length)

  def write(offset, data) = @memory.write(offset, data)

  # The same without a String: what the service uses.
  def read_into(buffer, offset) = buffer.copy_from(@memory, offset)

  def write_from(buffer, offset) = buffer.copy_to(@memory, offset)

  # The pages go back to the system.
  def discard(offset, length) = @memory.zero(offset, length)

  def write_zeroes(offset, length) = @memory.zero(offset, length)
end
