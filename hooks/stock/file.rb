# frozen_string_literal: true

require "etc"

# A disk in a file or on a block device. Sparse where the file is; discarded ranges become holes.
class FileDisk < UBLK::Target
  DROP_IN = "/etc/systemd/system/ublk-ruby-device@.service.d/image.conf"

  option :path, :path, required: true, doc: "the image: a file or a block device"
  option :size, :bytes, doc: "size of the disk; what the image has if not given, and the image grows as it is written"
  recovery :reissue # the file outlives the worker; a write that is done twice is done

  def initialize(path:, size: nil)
    @path = path
    @file = open_image
    @block = UBLK::Sys.block_size(@file.stat) || 512
    super(size: size || image_size)
  end

  # Zeroes past the end of an image that is shorter than the disk.
  def read(offset, length)
    data = UBLK::Sys.pread(@file, length, offset)
    data << ("\0".b * (length - data.bytesize)) if data.bytesize < length
    data
  end

  def write(offset, data) = UBLK::Sys.pwrite(@file, data, offset)

  # The same without a String: what the service uses.
  def read_into(buffer, offset)
    size = buffer.size
    done = buffer.pread(@file, offset)
    buffer.fill(0, done) if done < size
    size
  end

  def write_from(buffer, offset) = buffer.pwrite(@file, offset)

  def flush = @file.fdatasync

  # EOPNOTSUPP where the file system has no holes: nothing is lost by that.
  def discard(offset, length) = UBLK::Sys.punch_hole(@file, offset, length)

  def write_zeroes(offset, length, unmap: true)
    return UBLK::Sys.punch_hole(@file, offset, length) if unmap

    UBLK::Sys.zero_range(@file, offset, length)
  end

  # The image is made longer, with a hole, where the disk needs that. It is cut off only if it ends with the disk: what an
  # image has behind its disk is not the disk's. A block device is as long as it is.
  def resize(bytes)
    length = image_size
    if @file.stat.file?
      change_image(bytes) if bytes > size ? bytes > length : length == size
    elsif bytes > length
      raise Errno::ENOSPC, "#{@path} has #{length} bytes"
    end
    bytes
  end

  # A block device's own, without which it would refuse to make holes of parts of its blocks.
  def logical_block_size = @block
  def read_only? = UBLK.read_only?

  private

  # Of a block device too, whose File#size is 0.
  def image_size
    @file.seek(0, IO::SEEK_END)
    @file.pos
  end

  def change_image(bytes)
    @file.truncate(bytes)
    @file.fsync
  end

  def open_image
    file = File.open(@path, UBLK.read_only? ? "rb" : "r+b")
    return file if file.stat.file? || file.stat.blockdev?

    raise ArgumentError, "#{@path} is neither a file nor a block device"
  rescue Errno::EACCES, Errno::EPERM, Errno::EROFS, Errno::ENOENT => e
    raise e.class, "#{@path}: #{remedy(e)}"
  end

  # What the administrator can do about it.
  def remedy(error)
    place = target
    return home_remedy if place.start_with?("/home/", "/root/", "/run/user/")
    return temporary_remedy(error) if place.start_with?("/tmp/", "/var/tmp/")
    return device_remedy(place) if place.start_with?("/dev/") && !error.is_a?(Errno::ENOENT)

    case error
    when Errno::ENOENT then missing_remedy
    when Errno::EROFS
      "the service may not write there; #{drop_in("ReadWritePaths=#{File.dirname(@path)}")}; " \
        "or, if the file system itself can't be written, create the device with read-only"
    else owner_remedy
    end
  end

  def missing_remedy = "there is no such file; make it with truncate -s SIZE #{@path}"

  # Where --check has its copies, too: there the path stands for one that may be anywhere.
  def temporary_remedy(error)
    return "the service has a /tmp and a /var/tmp of its own; move the image, for example to /srv" unless error.is_a?(Errno::ENOENT)

    "#{missing_remedy}; one in /tmp or /var/tmp will not do, as the service has its own of these"
  end

  # Where a link leads, even into a directory that can't be seen from here.
  def target
    File.symlink?(@path) ? File.expand_path(File.readlink(@path), File.dirname(@path)) : @path
  end

  # The unit's device policy answers EPERM, the node's owner EACCES.
  def device_remedy(place)
    "the service may not open devices; #{drop_in("DeviceAllow=#{place} rw and SupplementaryGroups=disk")}"
  end

  def home_remedy
    "the service does not see home directories; move the image, for example to /srv, or " \
      "#{drop_in("ProtectHome=no")}, and chown #{user} #{@path}"
  end

  def drop_in(line)
    "put [Service] and #{line} into #{DROP_IN}, then systemctl daemon-reload"
  end

  # The image's owner, or a directory on the way to it.
  def owner_remedy
    closed = closed_directory
    return "the user #{user} can't enter #{closed}; chmod o+x #{closed}" if closed

    "the user #{user} may not open it; chown #{user} #{@path}"
  end

  def closed_directory
    directories = File.dirname(@path).split("/").reject(&:empty?)
    (1..directories.size).map { |n| "/#{directories.first(n).join("/")}" }.find { |path| !File.executable?(path) }
  end

  def user
    Etc.getpwuid(Process.euid)&.name || Process.euid.to_s
  end
end
