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

  # The system may read or write less than it was asked to. The end of a file that was cut off is an error.
  def read(offset, length)
    data = @file.pread(length, offset)
    data << @file.pread(length - data.bytesize, offset + data.bytesize) while data.bytesize < length
    data
  end

  def write(offset, data)
    done = @file.pwrite(data, offset)
    done += @file.pwrite(data.byteslice(done..), offset + done) while done < data.bytesize
    done
  end

  def flush = @file.fdatasync
  def discard(offset, length) = UBLK::Sys.punch_hole(@file, offset, length)
  def write_zeroes(offset, length, unmap: true) = unmap ? discard(offset, length) : UBLK::Sys.zero_range(@file, offset, length)
  def read_only? = UBLK.read_only?
end
