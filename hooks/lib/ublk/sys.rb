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
  module Sys
    unless respond_to?(:punch_hole)
      def self.punch_hole(_io, _offset, _length)
        raise Errno::EOPNOTSUPP, "fallocate needs the worker"
      end

      def self.zero_range(_io, _offset, _length)
        raise Errno::EOPNOTSUPP, "fallocate needs the worker"
      end
    end
  end
end
