# frozen_string_literal: true

require "ublk/around"

module UBLK
  module Layers
    # A slow disk: `use Delay, seconds: "10ms", jitter: "5ms"`. Requests of one queue wait for each other.
    class Delay < Around
      # seconds: before each request goes on; jitter: up to so much more, by chance. ops: only these.
      def initialize(target, seconds:, jitter: 0, ops: nil)
        super(target)
        @seconds = value(:duration, :seconds, seconds)
        @jitter = value(:duration, :jitter, jitter)
        @ops = operation_set(ops)
      end

      def around(op, _offset, _length)
        pause(@seconds + rand * @jitter) if @ops.nil? || @ops.include?(op)
        yield
      end

      private

      def pause(seconds) = sleep(seconds)
    end
  end
end
