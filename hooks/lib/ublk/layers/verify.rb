# frozen_string_literal: true

require "zlib"
require "ublk/layer"

module UBLK
  module Layers
    # Remembers a checksum (CRC-32) of every block that is written, and answers EILSEQ when what is read back
    # is something else. The checksums are kept in memory, 4 bytes for each block of what was written: a
    # worker that starts anew knows nothing yet.
    class Verify < Layer
      CHUNK = 1024 # blocks whose checksums are one String
      UNKNOWN = 0  # a block whose CRC is that is not checked: one of four thousand million

      # Reads that were found wrong.
      attr_reader :mismatches

      # block: what a checksum is of; a request for a part of one reads all of it. learn: whether what was not
      # written is remembered as it is first read; for disks that only this one changes.
      def initialize(target, block: 4096, learn: false)
        super(target)
        @block = block_size(block)
        @learn = learn
        @chunks = {} # by number: CHUNK checksums of 32 bits
        @mismatches = 0
        @lock = Mutex.new
      end

      def read(offset, length)
        @lock.synchronize do
          first, covering = covering(offset, length)
          verify(first, covering)
          covering.byteslice(offset - first * @block, length)
        end
      end

      # Until the target has answered the blocks are unknown: a write that fails may have been done in part.
      def write(offset, data)
        @lock.synchronize do
          length = data.bytesize
          first, sums = sums_after(offset, data) # the target may change its String
          forget(first, sums.size)
          answer = @target.write(offset, data)
          sums.each_with_index { |crc, at| set(first + at, crc) } if answer == length
          answer
        end
      end

      # What it reads as afterwards is the target's to say. Nothing is read or learnt while it changes.
      def discard(offset, length) = forgetting(offset, length) { super }
      def write_zeroes(offset, length, unmap: true) = forgetting(offset, length) { super }

      private

      # The number of the first block that a range touches, and the bytes of all that it touches.
      def covering(offset, length)
        first = offset / @block
        start = first * @block
        [first, fetch(start, [round_up(offset + length), size].min - start)]
      end

      # The number of the first block that a write touches, and the checksums that it will leave. What is read
      # of the edges is verified: a wrong byte must not get a right checksum.
      def sums_after(offset, data)
        last = offset + data.bytesize
        head = edge(offset - offset % @block, offset)
        tail = edge(last, [round_up(last), size].min)
        image = head.empty? && tail.empty? ? data : head + data + tail
        [offset / @block, each_block(0, image).map { |_, block| Zlib.crc32(block) }]
      end

      # Bytes start...finish, which are in one block.
      def edge(start, finish)
        return NUL.byteslice(0, 0) if start == finish

        first, block = covering(start, finish - start)
        verify(first, block)
        block.byteslice(start - first * @block, finish - start)
      end

      def verify(first, data)
        each_block(first, data) do |number, block|
          known = sum(number)
          next @learn && set(number, Zlib.crc32(block)) if known == UNKNOWN
          next if known == Zlib.crc32(block)

          @mismatches += 1
          raise Errno::EILSEQ, "block #{number} (#{@block} bytes at #{number * @block}) is not as written"
        end
      end

      def forgetting(offset, length)
        @lock.synchronize do
          first = offset / @block
          forget(first, round_up(offset + length) / @block - first)
          yield
        end
      end

      # Of a range that has more blocks than there are checksums, those that are there.
      def forget(first, count)
        range = first...first + count
        chunks = first / CHUNK..(first + count - 1) / CHUNK
        touched = chunks.size > @chunks.size ? @chunks.keys.select { |number| chunks.cover?(number) } : chunks
        touched.each do |number|
          start = number * CHUNK
          next @chunks.delete(number) if range.cover?(start) && range.cover?(start + CHUNK - 1)

          next unless @chunks[number]

          ([start, first].max...[start + CHUNK, range.end].min).each { |block| set(block, UNKNOWN) }
        end
      end

      def sum(number)
        chunk = @chunks[number / CHUNK]
        chunk ? chunk.unpack1("L", offset: number % CHUNK * 4) : UNKNOWN
      end

      def set(number, crc)
        chunk = @chunks[number / CHUNK] ||= NUL * (CHUNK * 4)
        chunk[number % CHUNK * 4, 4] = [crc].pack("L")
      end

      # Yields the number and the bytes of each block of `data`.
      def each_block(first, data)
        return to_enum(:each_block, first, data) unless block_given?

        (0...data.bytesize).step(@block).with_index(first) do |at, number|
          yield number, at.zero? && data.bytesize <= @block ? data : data.byteslice(at, @block)
        end
      end

      def round_up(position) = (position + @block - 1) / @block * @block
    end
  end
end
