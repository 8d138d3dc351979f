require "ublk/autorun"

# A disk in a file: truncate -s 1G /srv/disk.img && chown ublk-ruby /srv/disk.img
#
#   ublkctl create img file_disk path=/srv/disk.img
#   ruby examples/file_disk.rb path=/srv/disk.img
#
# The hook `file` that comes with the service is the same with messages that help.
class FileDisk < UBLK::Target
  option :path, :path, required: true, doc: "the image"
  recovery :reissue                      # the file outlives the worker, and a write that is done twice is done

  def initialize(path:)
    @file = File.open(path, read_only? ? "rb" : "r+b")
    super(size: @file.size / 512 * 512)
  end

  # A UBLK::Buffer goes on until all is done. The end of a file that was cut off is an error: then it is less.
  def read_into(buffer, offset) = buffer.pread(@file, offset)
  def write_from(buffer, offset) = buffer.pwrite(@file, offset)

  def flush = @file.fdatasync
  def discard(offset, length) = UBLK::Sys.punch_hole(@file, offset, length)
  def write_zeroes(offset, length, unmap: true) = unmap ? discard(offset, length) : UBLK::Sys.zero_range(@file, offset, length)
  def read_only? = UBLK.read_only?
end
