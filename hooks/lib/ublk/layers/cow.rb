# frozen_string_literal: true

require "ublk/layer"
require "ublk/layers/cow/overlay"

module UBLK
  module Layers
    # Copy on write: what is written goes to a file, the target below is only read. `use Cow, overlay:
    # "/var/lib/ublk-ruby/scratch.cow"` makes a disk that can be written of an image that can't. Take the file
    # away and the disk is as it was.
    #
    # The file is sparse and grows with what is written. It survives a crash of the worker at any moment with
    # all that was answered, and one of the machine with all that was flushed: a block is marked as written
    # only when its data is where the mark is.
    class Cow < Layer
      # overlay: path of the file, which is made if it is not there or empty; it belongs to this disk alone, which
      # locks it (see FileLock), and the target must not change under it. block: what is copied at least; part of the file's format, so it
      # stays what it was when the file was made.
      def initialize(target, overlay:, block: 4096)
        super(target)
        @block = block_size(block)
        @size = target.size
        @overlay = open_overlay(value(:path, :overlay, overlay))
        @lock = Mutex.new
      end

      def read_only? = false
      def supports?(operation) = operation != :resize

      def read(offset, length)
        first = offset / @block
        last = (offset + length - 1) / @block
        parts = []
        @overlay.each_run(first, last) do |written, from, count|
          start = [from * @block, offset].max
          size = [(from + count) * @block, offset + length].min - start
          parts << (written ? @overlay.read(start, size) : fetch(start, size))
        end
        parts.one? ? parts.first : parts.join
      end

      def write(offset, data)
        @lock.synchronize { store(offset, data) }
        data.bytesize
      end

      # What is below is not written, and not flushed.
      def flush
        @overlay.flush
        0
      end

      def discard(offset, length) = write_zeroes(offset, length)

      # Whole blocks become holes of the file; they are marked, or what is below would show again.
      def write_zeroes(offset, length, unmap: true)
        finish = offset + length
        first = round_up(offset)
        last = finish == @size ? finish : finish / @block * @block
        @lock.synchronize do
          next store(offset, NUL * length) if last <= first

          store(offset, NUL * (first - offset)) if first > offset
          @overlay.zero(first, last - first, unmap)
          store(last, NUL * (finish - last)) if finish > last
        end
        0
      end

      private

      def open_overlay(path) = Overlay.new(path, @size, @block)

      # What the blocks at both ends have beside the data is copied up with it, if it is not there yet.
      def store(offset, data)
        finish = offset + data.bytesize
        head = missing(offset - offset % @block, offset)
        tail = missing(finish, [round_up(finish), @size].min)
        data = head + data + tail unless head.empty? && tail.empty?
        @overlay.write(offset - head.bytesize, data)
      end

      # Bytes start...finish, in one block, unless the overlay has that block.
      def missing(start, finish)
        return NUL.byteslice(0, 0) if start == finish || @overlay.written?(start / @block)

        fetch(start, finish - start)
      end

      def round_up(position) = (position + @block - 1) / @block * @block
    end
  end
end
