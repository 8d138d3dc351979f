# The file hook, which takes its time.
class Slow < UBLK::Target
  option :path, :path, required: true
  option :seconds, :float, default: 0.3
  recovery :reissue

  def initialize(path:, seconds:)
    @file = File.open(path, "r+b")
    @seconds = seconds
    super(size: @file.size)
  end

  def read(offset, length)
    sleep @seconds
    @file.pread(length, offset)
  end

  def write(offset, data) = @file.pwrite(data, offset)
end
