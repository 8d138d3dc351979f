# frozen_string_literal: true

require "ublk/around"

module UBLK
  module Layers
    # Writes a line for each request once it is answered, to the journal unless told otherwise:
    # `write 4096+8192 ok 0.113 ms`, `read 0+512 Errno::EIO 2.006 ms`, `flush ok 0.020 ms`.
    class Trace < Around
      # ops: only these. to: anything with `puts`.
      def initialize(target, ops: nil, to: $stderr)
        super(target)
        @ops = operation_set(ops)
        @to = to
      end

      def around(op, offset, length)
        return yield unless @ops.nil? || @ops.include?(op)

        start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)
        outcome = "ended by a jump"
        begin
          answer = yield
          outcome = refused?(answer) ? "refused (#{answer})" : "ok"
          answer
        rescue Exception => e # rubocop:disable Lint/RescueException: it goes on its way
          outcome = e.class
          raise
        ensure
          report(op, offset, length, outcome, start)
        end
      end

      private

      def report(op, offset, length, outcome, start)
        taken = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond) - start
        where = " #{offset}+#{length}" unless op == :flush
        tell(@to, format("%s%s %s %.3f ms", op, where, outcome, taken))
      end
    end
  end
end
