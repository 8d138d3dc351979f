# frozen_string_literal: true

require "ublk/layer"

module UBLK
  module Layers
    # Nothing below is changed, whoever asks: EROFS.
    class ReadOnly < Layer
      def read_only? = true
      def supports?(operation) = operation == :read && super
      def write(_offset, _data) = raise(Errno::EROFS)
      def discard(_offset, _length) = raise(Errno::EROFS)
      def write_zeroes(_offset, _length, **) = raise(Errno::EROFS)
    end
  end
end
