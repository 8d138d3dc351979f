# frozen_string_literal: true

require "ublk/around"

module UBLK
  module Layers
    # Counts requests, bytes, errors and time, and now and then writes a line of it to the journal:
    # `read 1204 requests 4931584 bytes 0 errors 0.051 ms mean 3.120 ms max; write …`.
    class Stats < Around
      # Of one operation. seconds: all of them together; slowest: of the longest.
      Counter = Struct.new(:requests, :bytes, :errors, :seconds, :slowest) do
        def add(length, failed, taken)
          self.requests += 1
          self.bytes += length unless failed
          self.errors += 1 if failed
          self.seconds += taken
          self.slowest = taken if taken > slowest
        end
      end

      # every: how often it is written, when requests arrive; nil for never. to: anything with `puts`.
      def initialize(target, every: 60, to: $stderr)
        super(target)
        @every = value(:duration, :every, every)
        @to = to
        @lock = Mutex.new
        @counters = OPERATIONS.to_h { |op| [op, Counter.new(0, 0, 0, 0.0, 0.0)] }
        @reported_at = clock
      end

      # Counter by operation: a copy.
      def stats = @lock.synchronize { @counters.transform_values(&:dup) }

      def around(op, _offset, length)
        start = clock
        failed = true
        begin
          answer = yield
          failed = refused?(answer)
          answer
        ensure
          finish(op, length, failed, start)
        end
      end

      # The line: of operations that there were.
      def to_s
        stats.reject { |_op, counter| counter.requests.zero? }.map do |op, c|
          format("%s %d requests %d bytes %d errors %.3f ms mean %.3f ms max", op, c.requests, c.bytes,
                 c.errors, c.seconds / c.requests * 1e3, c.slowest * 1e3)
        end.join("; ")
      end

      private

      def finish(op, length, failed, start)
        now = clock
        due = @lock.synchronize do
          @counters[op].add(length, failed, now - start)
          @every && now - @reported_at >= @every && (@reported_at = now)
        end
        tell(@to, to_s) if due
      end

      def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
