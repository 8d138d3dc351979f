# A disk without a cache, so without flush, of blocks of 512 bytes; a line in LOG for each write_zeroes and discard.
class Noflush < UBLK::Target
  option :size, :bytes, required: true
  option :log, :path, required: true

  def initialize(size:, log:)
    super(size: size)
    @data = "\0".b * size
    @log = File.open(log, "a")
    @log.sync = true
  end

  def physical_block_size = 512
  def read(offset, length) = @data.byteslice(offset, length)

  def write(offset, data)
    @data[offset, data.bytesize] = data
    data.bytesize
  end

  def write_zeroes(offset, length, unmap:)
    @log.puts "write_zeroes #{offset} #{length} unmap=#{unmap}"
    @data[offset, length] = "\0".b * length
    0
  end

  def discard(offset, length)
    @log.puts "discard #{offset} #{length}"
    0
  end
end
