# frozen_string_literal: true

require "timeout"
require "ublk/around"

module UBLK
  module Layers
    # Tries again what failed: `use Retry, times: 5, wait: "200ms"`. Waits longer each time. For errors of a
    # system underneath that may pass, not for those that say that something can't be had.
    #
    # A flush is never tried again. Linux says once to each open file that data could not be written, and takes
    # that data for clean: fdatasync then succeeds, and what is lost would be reported as durable.
    class Retry < Around
      # What a second try does not help against.
      FINAL = [Errno::EOPNOTSUPP, Errno::EROFS, Errno::ENOSPC, Errno::EDQUOT, Errno::EINVAL, Errno::EPERM,
               Errno::EACCES, Errno::EBADF].freeze
      TRANSIENT = [SystemCallError, IOError, Timeout::Error].freeze

      # times: tries after the first. wait: before the first of these, twice as long before each further one.
      # on: classes of exceptions; a negative answer counts as its Errno.
      def initialize(target, times: 3, wait: 0.1, on: TRANSIENT)
        super(target)
        @times = value(:integer, :times, times)
        raise ArgumentError, "times must be from 1 to 100, not #{@times}" unless @times.between?(1, 100)

        @wait = value(:duration, :wait, wait)
        @on = Array(on)
      end

      # The hook below may change or keep what it is given: each try has its own.
      def write(offset, data) = around(:write, offset, data.bytesize) { @target.write(offset, data.dup) }

      # Nobody can change what is in that.
      def write_from(buffer, offset) = around(:write, offset, buffer.size) { @target.write_from(buffer, offset) }

      # The last try counts as it ends.
      def around(op, _offset, _length, &operation)
        return yield if op == :flush

        @times.times do |tried|
          done, answer = attempt(&operation)
          return answer if done

          pause(@wait * 2**tried)
        end
        yield
      end

      private

      # Whether it ended so that another try is of no use, and the answer.
      def attempt
        answer = yield
        [!refused?(answer) || !transient?(SystemCallError.new(nil, -answer)), answer]
      rescue *@on => e
        raise unless transient?(e)

        [false, nil]
      end

      def transient?(error)
        @on.any? { |wanted| wanted === error } && FINAL.none? { |final| final === error }
      end

      def pause(seconds) = sleep(seconds)
    end
  end
end
