# A RAM disk that writes down what reached it: one line per flush, discard and write_zeroes, in a file of
# the directory that systemd made for its worker. Other reads and writes are only counted.
class Counting < UBLK::Target
  option :size, :bytes, required: true
  recovery :none

  def initialize(size:)
    super(size: size)
    @data = ("\0" * (size + 1)).force_encoding(Encoding::BINARY)
    @log = File.open(File.join(ENV.fetch("RUNTIME_DIRECTORY"), "log"), "a", 0o644)
    @log.sync = true
  end

  def read(offset, length) = @data.byteslice(offset, length)

  def write(offset, data)
    @data[offset, data.bytesize] = data
    data.bytesize
  end

  def flush
    @log.puts "flush"
    0
  end

  def discard(offset, length)
    @log.puts "discard #{offset} #{length}"
    @data[offset, length] = ("\0" * length).b
    0
  end

  def write_zeroes(offset, length, unmap: nil)
    @log.puts "write_zeroes #{offset} #{length} unmap=#{unmap}"
    @data[offset, length] = ("\0" * length).b
    0
  end
end
