# frozen_string_literal: true

require "ublk/layer"

module UBLK
  module Layers
    # A part of a disk as a disk: `use Partition, offset: "1M", length: "100M"`.
    class Partition < Layer
      attr_reader :size

      # offset: where it begins. length: of it, in bytes; nil: up to the end. Both multiples of the logical
      # block size.
      def initialize(target, offset:, length: nil)
        super(target)
        @offset = value(:bytes, :offset, offset)
        @size = value(:bytes, :length, length) || target.size - @offset
        check_bounds
      end

      def read(offset, length) = @target.read(inside(offset, length), length)
      def write(offset, data) = @target.write(inside(offset, data.bytesize), data)
      def read_into(buffer, offset) = @target.read_into(buffer, inside(offset, buffer.size))
      def write_from(buffer, offset) = @target.write_from(buffer, inside(offset, buffer.size))
      def discard(offset, length) = @target.discard(inside(offset, length), length)
      def write_zeroes(offset, length, unmap: true) = zero(@target, inside(offset, length), length, unmap)

      private

      # Never a byte of its neighbours, whatever a layer above does.
      def inside(offset, length)
        return @offset + offset if offset >= 0 && offset + length <= @size

        raise Errno::EINVAL, "#{offset}+#{length} is not inside"
      end

      def check_bounds
        block = logical_block_size
        unless (@offset % block).zero? && (@size % block).zero? && @size.positive?
          raise ArgumentError, "offset #{@offset} and length #{@size} must be multiples of #{block}, " \
                               "and length above 0"
        end
        return if @offset + @size <= @target.size

        raise ArgumentError, "offset #{@offset} and length #{@size} go beyond the disk's #{@target.size} bytes"
      end
    end
  end
end
