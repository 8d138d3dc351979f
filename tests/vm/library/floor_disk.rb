# The disk of the scenario `floor`, as a hook of the service and as a target in a plain program: in memory, or in a
# file. It counts what reaches it, and fails in a range.
class FloorDisk < UBLK::Target
  option :size, :bytes, required: true
  option :path, :path, doc: "a file; in memory without one"
  option :log, :path, doc: "takes a line for each flush, discard and write_zeroes"
  option :bad, :string, doc: "FIRST-LAST, bytes: reads and writes there fail"
  option :errno, :integer, doc: "of an odd error in the bad range; EIO if not given"
  recovery :none

  def initialize(size:, path: nil, log: nil, bad: nil, errno: nil)
    super(size: size)
    @data = path ? File.open(path, "r+b") : ("\0" * (size + 1)).force_encoding(Encoding::BINARY)
    @bad = Range.new(*bad.split("-").map(&:to_i)) if bad
    @errno = errno
    log ||= File.join(ENV["RUNTIME_DIRECTORY"], "log") if ENV["RUNTIME_DIRECTORY"]
    @log = File.open(log, "a", 0o644).tap { |file| file.sync = true } if log
  end

  def read(offset, length)
    refuse(offset, length)
    @data.is_a?(String) ? @data.byteslice(offset, length) : @data.pread(length, offset)
  end

  def write(offset, data)
    refuse(offset, data.bytesize)
    return @data.pwrite(data, offset) unless @data.is_a?(String)

    @data[offset, data.bytesize] = data
    data.bytesize
  end

  def flush
    note "flush"
    @data.is_a?(String) ? 0 : @data.fdatasync
  end

  def discard(offset, length)
    note "discard #{offset} #{length}"
    write(offset, "\0".b * length)
    0
  end

  def write_zeroes(offset, length)
    note "write_zeroes #{offset} #{length}"
    write(offset, "\0".b * length)
    0
  end

  private

  def note(line) = @log&.puts(line)

  def refuse(offset, length)
    return unless @bad && offset <= @bad.end && offset + length > @bad.begin
    raise Errno::EIO unless @errno

    raise SystemCallError.new("odd", @errno.zero? ? nil : @errno)
  end
end
