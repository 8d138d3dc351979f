# frozen_string_literal: true

require "ublk/layer"

module UBLK
  module Layers
    # Keeps what was read last in memory: `use Cache, bytes: "64M"`. Writes go through, and throw what they
    # touch out of the cache; nothing is ever only here.
    class Cache < Layer
      # Requests that were answered without the target, and those that were not.
      attr_reader :hits, :misses

      # bytes: how much is kept. block: the unit of it; a read of less reads all of the block.
      def initialize(target, bytes: 16 << 20, block: 4096)
        super(target)
        @block = block_size(block)
        @max = value(:bytes, :bytes, bytes) / @block
        raise ArgumentError, "bytes must be at least one block, #{@block}" unless @max.positive?

        @blocks = {} # by number: frozen Strings, the one that was used longest ago first
        @changes = 0 # what was read before a change must not get in after it
        @hits = @misses = 0
        @lock = Mutex.new
      end

      def read(offset, length)
        first = offset / @block
        last = (offset + length - 1) / @block
        found = @lock.synchronize { look_up(first, last) } || load_blocks(first, last)
        found.byteslice(offset - first * @block, length)
      end

      def write(offset, data) = changing(offset, data.bytesize) { super }
      def discard(offset, length) = changing(offset, length) { super }
      def write_zeroes(offset, length, unmap: true) = changing(offset, length) { super }

      private

      # All bytes of the blocks, nil unless every one is there.
      def look_up(first, last)
        unless (first..last).all? { |number| @blocks.key?(number) }
          @misses += 1
          return
        end

        @hits += 1
        parts = (first..last).map { |number| @blocks[number] = @blocks.delete(number) } # to the end
        parts.one? ? parts.first : parts.join
      end

      def load_blocks(first, last)
        changes = @changes
        start = first * @block
        data = fetch(start, [(last + 1) * @block, size].min - start)
        @lock.synchronize { keep(first, data) if changes == @changes }
        data
      end

      # Those of a request that is larger than the cache would only push each other out.
      def keep(first, data)
        return if data.bytesize > @max * @block

        (0...data.bytesize).step(@block).with_index(first) do |at, number|
          @blocks.delete(number)
          @blocks[number] = data.byteslice(at, @block).freeze
        end
        @blocks.shift while @blocks.size > @max
      end

      # Before, so that nobody finds the old data once the new is there; and afterwards, for who read
      # meanwhile.
      def changing(offset, length)
        drop(offset, length)
        yield
      ensure
        drop(offset, length)
      end

      def drop(offset, length)
        range = offset / @block..(offset + length - 1) / @block
        @lock.synchronize do
          @changes += 1
          next @blocks.delete_if { |number, _| range.cover?(number) } if range.size > @blocks.size

          range.each { |number| @blocks.delete(number) }
        end
      end
    end
  end
end
