# A RAM disk whose reads at 20 MiB fail with ENOSPC, and which makes garbage.
class Erring < UBLK::Target
  option :size, :bytes, required: true
  recovery :reissue

  def initialize(size:)
    super(size: size)
    @memory = UBLK::Memory.new(size)
  end

  def read(offset, length)
    raise Errno::ENOSPC if offset == 20 << 20

    GC.start
    @memory.read(offset, length)
  end

  def write(offset, data) = @memory.write(offset, data)
end
