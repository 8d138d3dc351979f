# frozen_string_literal: true

require "ublk/around"

module UBLK
  module Layers
    # At most so many requests and so many bytes a second: `use RateLimit, iops: 500, bytes: "20M"`. What is
    # over that waits. All operations are requests; bytes are those that are read and written. A discard and a
    # write_zeroes move none.
    class RateLimit < Around
      # iops: requests a second. bytes: bytes a second. At least one of them. burst: for how long a disk that
      # was idle may go without waiting, in seconds' worth of its rate.
      def initialize(target, iops: nil, bytes: nil, burst: 0.1)
        super(target)
        @costs = [per_unit(:integer, :iops, iops), per_unit(:bytes, :bytes, bytes)]
        raise ArgumentError, "RateLimit needs iops or bytes" unless @costs.any?(&:positive?)

        @burst = value(:duration, :burst, burst)
        @free_at = [-Float::INFINITY] * 2 # when all that was let through is paid for, by each limit
        @lock = Mutex.new
      end

      def around(op, _offset, length)
        wait = reserve(%i[read write].include?(op) ? length : 0)
        pause(wait) if wait.positive?
        yield
      end

      private

      # Takes the request's share of both and returns for how long it has to wait. A request waits until what
      # was before it is paid for, but for a burst; its own cost is paid by those after it.
      def reserve(bytes)
        @lock.synchronize do
          now = clock
          [1, bytes].each_with_index.map do |amount, i|
            next 0.0 if @costs[i].zero?

            start = [@free_at[i], now - @burst].max
            @free_at[i] = start + amount * @costs[i]
            start - now
          end.max
        end
      end

      # Seconds per request or byte; 0 without that limit.
      def per_unit(type, name, given)
        rate = value(type, name, given)
        raise ArgumentError, "#{name} must be above 0, not #{rate}" if rate && rate <= 0

        rate ? 1.0 / rate : 0.0
      end

      def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      def pause(seconds) = sleep(seconds)
    end
  end
end
