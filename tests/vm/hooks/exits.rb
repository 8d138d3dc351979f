# The file hook, with a way out: while TRIGGER exists, a write ends the process with exit status 0, once.
class Exits < UBLK::Target
  option :path, :path, required: true
  option :trigger, :path, required: true
  recovery :reissue

  def initialize(path:, trigger:)
    @trigger = trigger
    @file = File.open(path, "r+b")
    super(size: @file.size)
  end

  def read(offset, length) = @file.pread(length, offset)

  def write(offset, data)
    if File.exist?(@trigger)
      File.unlink(@trigger)
      exit!(0)
    end
    @file.pwrite(data, offset)
  end

  def flush = @file.fdatasync
end
