# frozen_string_literal: true

# Makes a file of its own beside the image: it goes with the copies.
class Mirror < UBLK::Target
  option :path, :path, required: true
  recovery :reissue

  def initialize(path:)
    @file = File.open(path, "r+b")
    @copy = File.open("#{path}.copy", File::RDWR | File::CREAT)
    super(size: @file.size)
    @copy.truncate(size)
  end

  def read(offset, length) = @file.pread(length, offset)

  def write(offset, data)
    @file.pwrite(data, offset)
    @copy.pwrite(data, offset)
  end

  def flush
    @file.fdatasync
    @copy.fdatasync
  end
end
