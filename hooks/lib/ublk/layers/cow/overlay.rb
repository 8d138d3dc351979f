# frozen_string_literal: true

require "ublk/file_lock"
require "ublk/layer"
require "ublk/layers/cow/bits"
require "ublk/sys"

module UBLK
  module Layers
    class Cow < Layer
      # The file: a page with what it is, two bitmaps of the blocks that are written, and the blocks, each at
      # its own place.
      #
      # The first bitmap is true to the disk. Its marks are written by a flush, after the data that they speak
      # of was synced: so no mark can outlive a power failure that its data did not. The second is true to the
      # page cache: its marks are written with each request, after the data, and are there for the next
      # worker. It counts for as long as the machine was not started anew; which boot it belongs to stands in
      # the first page. Where boots can't be told apart, data is synced before each mark, and the first one is
      # all there is.
      class Overlay
        MAGIC = "UBLKCOW1"
        HEADER = "a8 L< L< Q< a64" # magic, 0, block, size, boot
        PAGE = 4096
        PIECE = 1 << 20 # of zeroes, where the file system makes no holes

        # size: of the disk. block: bytes, as long as the file is not there yet. Raises ArgumentError for a
        # file that is of another disk, UBLK::Error for one that another disk uses, and Errno.
        def initialize(path, size, block, boot: Sys.boot_id)
          @path = path
          @size = size
          @block = block
          @boot = boot
          @bitmap = (size + block * 8 - 1) / (block * 8) # bytes
          @bitmap += -@bitmap % PAGE
          @data = PAGE + @bitmap * 2 + -(PAGE + @bitmap * 2) % block
          @lock = Mutex.new
          @flushing = Mutex.new
          open
        end

        def written?(number) = @bits.set?(number)

        # Yields whether they are written, first block, and how many, for each run of the blocks first..last.
        def each_run(first, last, &) = @bits.each_run(first, last, &)

        # Bytes of blocks that are written.
        def read(offset, length)
          data = Sys.pread(@file, length, @data + offset)
          raise IOError, "#{@path} was cut off" unless data.bytesize == length

          data
        end

        # The data has to fill every block that is not written yet.
        def write(offset, data)
          store(data, @data + offset)
          mark(offset, data.bytesize)
        end

        # Whole blocks.
        def zero(offset, length, unmap)
          clear(offset, length, unmap)
          mark(offset, length)
        end

        # Marks of requests that are answered while it syncs are left for the next flush. One at a time: the marks that
        # a slower one has taken before are fewer, and would replace those of a quicker one.
        def flush
          @flushing.synchronize { write_marks }
        end

        private

        def open
          @file = open_file
          FileLock.take(@file, @path)
          create if empty?
          same_boot = check(@file.pread(PAGE, 0))
          @unsynced = {} # pages of the bitmap
          same_boot ? take_live : take_durable
        rescue Exception
          @file&.close
          raise
        end

        def write_marks
          pages = @lock.synchronize { @unsynced.tap { @unsynced = {} } }
          images = pages.keys.map { |page| [page, @bits.bytes(page * PAGE, PAGE)] }
          @file.fdatasync
          return if images.empty?

          images.each { |page, image| store(image, PAGE + page * PAGE) }
          @file.fdatasync
          pages = nil
        ensure
          @lock.synchronize { @unsynced.merge!(pages) } if pages
        end

        def open_file = File.open(@path, File::RDWR | File::CREAT | File::BINARY, 0o600)

        # New, or a worker died before it had written anything. A file of something else may begin with zeroes as well.
        def empty?
          @file.size.zero? || @file.seek(0, IO::SEEK_DATA).nil?
        rescue Errno::ENXIO
          true
        end

        def create
          @file.truncate(@data + @size)
          write_header("")
          @file.fsync
        end

        def write_header(boot)
          store([MAGIC, 0, @block, @size, boot].pack(HEADER).ljust(PAGE, "\0"), 0)
        end

        # Whether the second bitmap counts.
        def check(header)
          magic, _, block, size, boot = header.unpack(HEADER)
          raise ArgumentError, "#{@path} has data and is no overlay; give a new path" unless magic == MAGIC
          if size != @size || block != @block
            raise ArgumentError, "#{@path} is the overlay of a disk of #{size} bytes in blocks of " \
                                 "#{block}, not of #{@size} in blocks of #{@block}"
          end

          !@boot.nil? && boot.delete("\0") == @boot
        end

        # After a crash of the worker.
        def take_live
          @bits = Bits.new(bitmap_at(PAGE + @bitmap))
          durable = bitmap_at(PAGE)
          (0...@bitmap / PAGE).each do |page|
            @unsynced[page] = true if @bits.bytes(page * PAGE, PAGE) != durable.byteslice(page * PAGE, PAGE)
          end
        end

        # After a start of the machine. What the second bitmap says is not to be found again by the next
        # worker.
        def take_durable
          @bits = Bits.new(bitmap_at(PAGE))
          store(@bits.bytes(0, @bitmap), PAGE + @bitmap)
          write_header(@boot.to_s)
        end

        def bitmap_at(position) = @file.pread(@bitmap, position)

        # The file first: a block that counts as written in memory only would be lost with the process.
        def mark(offset, length)
          first = offset / @block
          last = (offset + length - 1) / @block
          @lock.synchronize do
            at, bytes = @bits.marked(first, last)
            next unless bytes

            @file.fdatasync unless @boot
            store(bytes, PAGE + @bitmap + at)
            record(at, bytes)
            @bits.replace(at, bytes)
          end
        end

        # What the first bitmap lacks; where it is all there is it lacks nothing.
        def record(at, bytes)
          return store(bytes, PAGE + at) unless @boot

          (at / PAGE..(at + bytes.bytesize - 1) / PAGE).each { |page| @unsynced[page] = true }
        end

        def clear(offset, length, unmap)
          Sys.public_send(unmap ? :punch_hole : :zero_range, @file, @data + offset, length)
        rescue Errno::EOPNOTSUPP
          zeroes = "\0".b * [PIECE, length].min
          (0...length).step(PIECE) { |at| store(zeroes.byteslice(0, length - at), @data + offset + at) }
        end

        def store(data, position) = Sys.pwrite(@file, data, position)
      end
    end
  end
end
