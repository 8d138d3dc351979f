# frozen_string_literal: true

# A disk in its state directory, which it asks for before it is built and while it is.
class KeepsState < UBLK::Target
  DIRECTORY = UBLK.state_directory

  option :size, :bytes, default: "6M"
  recovery :reissue

  def initialize(size:)
    super
    raise "another directory than before" unless state_directory == DIRECTORY

    @file = File.open(File.join(state_directory, "data"), File::RDWR | File::CREAT, 0o600)
    @file.truncate(size)
  end

  def read(offset, length) = @file.pread(length, offset)
  def write(offset, data) = @file.pwrite(data, offset)
  def flush = @file.fdatasync
end
