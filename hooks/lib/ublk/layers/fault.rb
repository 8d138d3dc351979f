# frozen_string_literal: true

require "ublk/policy"

module UBLK
  module Layers
    # Refuses requests, for trying out what is above the disk: `use Fault, range: 64 << 20...65 << 20` is a
    # bad spot, `use Fault, ops: :write, errno: "ENOSPC", trigger: "/run/full"` a disk that is full while that
    # file exists. A request is refused if all conditions hold that are given.
    class Fault < Policy
      # range: bytes; what overlaps it. A flush has no place, and is meant only by `ops`. errno: a number, a
      # name or a class of Errno. rate: the share that is refused, 0.0 to 1.0; seed: of the chance, for tests.
      # trigger: path of a file, looked for at each request.
      def initialize(target, range: nil, ops: nil, errno: Errno::EIO, rate: 1.0, trigger: nil, seed: nil)
        super(target)
        @range = range && bounds(range)
        @ops = operation_set(ops)
        @errno = errno(errno.is_a?(String) || errno.is_a?(Symbol) ? named(errno) : errno)
        @rate = rate_of(rate)
        @trigger = trigger
        @random = seed ? Random.new(seed) : Random.new
      end

      def before(op, offset, length)
        @errno if hit?(op, offset, length) && (@trigger.nil? || File.exist?(@trigger)) && chance?
      end

      private

      def hit?(op, offset, length)
        return @ops.include?(op) if @ops && op == :flush
        return false if @ops && !@ops.include?(op)

        @range ? length.positive? && offset < @range.end && offset + length > @range.begin : true
      end

      def chance? = @rate >= 1.0 || @random.rand < @rate

      # Half-open.
      def bounds(range)
        unless range.is_a?(Range) && [range.begin, range.end].all? { |at| at.nil? || position?(at) }
          raise ArgumentError, "range must be a Range of bytes, not #{range.inspect}"
        end

        last = range.end.nil? ? size : range.end + (range.exclude_end? ? 0 : 1)
        (range.begin || 0)...last
      end

      def position?(at) = at.is_a?(Integer) && !at.negative?

      def named(name)
        found = Errno.const_get(name) if Errno.const_defined?(name)
        found || raise(ArgumentError, "errno: there is no Errno::#{name}")
      rescue NameError
        raise ArgumentError, "errno: #{name.inspect} is no name of one, such as ENOSPC"
      end

      def errno(given)
        super
      rescue ContractError
        raise ArgumentError, "errno must be a number from 1 to 4095, a name such as \"ENOSPC\", " \
                             "or a class of Errno"
      end

      def rate_of(rate)
        return rate.to_f if rate.is_a?(Numeric) && rate.between?(0, 1)

        raise ArgumentError, "rate must be a number from 0.0 to 1.0, not #{rate.inspect}"
      end
    end
  end
end
