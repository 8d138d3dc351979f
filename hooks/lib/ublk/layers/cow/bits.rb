# frozen_string_literal: true

require "ublk/layer"

module UBLK
  module Layers
    class Cow < Layer
      # A bitmap in memory; the lowest bit of the first byte is block 0.
      class Bits
        SINGLY = 64 # bits that are set one by one

        # bytes: a binary String, which is taken over.
        def initialize(bytes)
          @bytes = bytes
        end

        def set?(number) = @bytes.getbyte(number >> 3)[number & 7] == 1

        # A copy.
        def bytes(at, count) = @bytes.byteslice(at, count)

        # Yields set or not, first, and count for each run in first..last.
        def each_run(first, last)
          start = first
          state = set?(first)
          (first + 1).upto(last) do |number|
            next if set?(number) == state

            yield state, start, number - start
            start = number
            state = !state
          end
          yield state, start, last + 1 - start
        end

        # The bytes that hold first..last as they are with all of these set, and where they belong; nil in
        # place of the bytes if they are set.
        def marked(first, last)
          at = first >> 3
          old = bytes(at, (last >> 3) - at + 1)
          new = fill(old.dup, first & 7, last - at * 8)
          [at, new == old ? nil : new]
        end

        def replace(at, bytes)
          @bytes[at, bytes.bytesize] = bytes
        end

        private

        def fill(bytes, first, last)
          return fill_singly(bytes, first, last) if last - first < SINGLY

          middle = (first + 7) >> 3
          finish = (last + 1) >> 3
          bytes[middle, finish - middle] = "\xff".b * (finish - middle)
          fill_singly(bytes, first, middle * 8 - 1)
          fill_singly(bytes, finish * 8, last)
        end

        def fill_singly(bytes, first, last)
          first.upto(last) do |number|
            at = number >> 3
            bytes.setbyte(at, bytes.getbyte(at) | 1 << (number & 7))
          end
          bytes
        end
      end
    end
  end
end
