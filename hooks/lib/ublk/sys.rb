# frozen_string_literal: true

module UBLK
  # System calls that Ruby has no method for. The worker defines them in C before this file is read; a plain
  # interpreter gets methods that say so.
  #
  # * `punch_hole(io, offset, length)`: frees the bytes of a file or a block device; they read as zeroes from then
  #   on. The file keeps its size. Returns 0.
  # * `zero_range(io, offset, length)`: the same, but the range stays allocated.
  #
  # Both raise `Errno::EOPNOTSUPP` where the file system can't, and any other errno of fallocate(2).
  #
  # * `pread(io, length, offset)`: bytes of a file or a block device, a binary String. Less than the length only at the end, where
  #   IO#pread may return less anywhere, and raises EOFError.
  # * `pwrite(io, data, offset)`: all of the data, where IO#pwrite may write less. Returns how many bytes it were.
  #
  # Both raise any errno of preadv2(2) and pwrite(2). Other threads run while they wait, which they don't for less than 64 KiB that
  # is in the page cache (to be read) or in a file on a tmpfs.
  #
  # * `block_size(stat)`: the logical block size in bytes of the block device that a File::Stat is of: what is not a
  #   multiple of it the device refuses. nil for a file, and where /sys does not tell.
  #
  # * `boot_id`: a String that is another one after the machine was started anew, so that what was in the page
  #   cache and on no disk is known to be gone. nil where nothing tells.
  module Sys
    # A partition has its disk's.
    def self.block_size(stat, sysfs: "/sys")
      return unless stat.blockdev?

      device = File.realpath("#{sysfs}/dev/block/#{stat.rdev_major}:#{stat.rdev_minor}")
      queue = [device, File.dirname(device)].map { |path| "#{path}/queue/logical_block_size" }.find { |path| File.file?(path) }
      Integer(File.read(queue), 10) if queue
    rescue Errno::ENOENT, Errno::EACCES
      nil
    end

    unless respond_to?(:punch_hole)
      def self.pread(io, length, offset)
        raise ArgumentError, "length must not be negative, and is #{length}" if length.negative?

        data = String.new(capacity: length)
        data << io.pread(length - data.bytesize, offset + data.bytesize) while data.bytesize < length
        data
      rescue EOFError
        data
      end

      def self.pwrite(io, data, offset)
        done = 0
        done += io.pwrite(data.byteslice(done..), offset + done) while done < data.bytesize
        done
      end

      def self.punch_hole(_io, _offset, _length)
        raise Errno::EOPNOTSUPP, "fallocate needs the worker"
      end

      def self.zero_range(_io, _offset, _length)
        raise Errno::EOPNOTSUPP, "fallocate needs the worker"
      end

      # For the worker, not for hooks: the directory is there and belongs to that device.
      def self.claim_state(path, _owner)
        raise Errno::EOPNOTSUPP, "#{path}: that needs the worker"
      end

      # For the worker, not for hooks: gives it its own signal handlers back. Whether that was needed.
      def self.restore_signals = false

      # For the worker, not for hooks: exit statuses that only it may end with.
      def self.reserved_statuses = []

      def self.boot_id
        File.read("/proc/sys/kernel/random/boot_id").strip
      rescue SystemCallError
        nil
      end
    end
  end
end
