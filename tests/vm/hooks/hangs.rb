# The file hook, but for a read of 4096 bytes at AT, which never comes back.
class Hangs < UBLK::Target
  option :path, :path, required: true
  option :at, :bytes, required: true
  recovery :reissue

  def initialize(path:, at:)
    @file = File.open(path, "r+b")
    @at = at
    super(size: @file.size)
  end

  def read(offset, length)
    sleep if offset == @at && length == 4096
    @file.pread(length, offset)
  end

  def write(offset, data) = @file.pwrite(data, offset)
end
