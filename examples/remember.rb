class Remember < UBLK::Target
  option :size, :bytes, default: "64M", doc: "of the disk"

  def initialize(size:)
    super(size: size)
    @blocks = Hash.new("\0".b * 4096)
  end

  def logical_block_size = 4096

  def read(offset, length)
    (offset / 4096...(offset + length) / 4096).map { |n| @blocks[n] }.join
  end

  def write(offset, data)
    (0...data.bytesize / 4096).each { |i| @blocks[offset / 4096 + i] = data.byteslice(i * 4096, 4096) }
    data.bytesize
  end
end
