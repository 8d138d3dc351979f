# frozen_string_literal: true

require "ublk/abilities"
require "ublk/target"

module UBLK
  # A target round another target: passes everything on, and a subclass changes what it wants to. Geometry,
  # read-only, block sizes and what the device advertises are the wrapped target's unless the layer defines
  # them. So is `recovery`; a layer that declares one can make it stricter, but never lifts :none.
  #
  # A layer is made once for a device and may be called from several threads, one for each queue.
  #
  # Of the two forms that a read or a write has, one is enough: a target or a layer that has only the other is asked in that
  # one. Where every layer only passes on, or has both, and the target is given a UBLK::Buffer, no String is made.
  class Layer < Target
    # Where a device's data comes from when a layer needs the bytes itself.
    NUL = "\0".b.freeze

    class << self
      def layer? = true
    end

    # The one below.
    attr_reader :target

    # A subclass takes its own options as keywords: `def initialize(target, seconds:)`, and calls
    # super(target).
    def initialize(target) # rubocop:disable Lint/MissingSuper: there is no size of its own
      raise ArgumentError, "a layer goes round a UBLK::Target, not a #{target.class}" unless Target === target

      @target = even(target)
      @takes_unmap = Abilities.takes_unmap?(target)
    end

    def size = @target.size
    def logical_block_size = @target.logical_block_size
    def physical_block_size = @target.physical_block_size
    def read_only? = @target.read_only?
    def rotational? = @target.rotational?
    def queues = @target.queues
    def depth = @target.depth

    # Whether the device may offer an operation (:read, :write, :discard, :write_zeroes, :resize). A layer that does
    # one without help from below says true for it. One may know the size of what is below it, so only a layer that
    # defines `resize` passes that on.
    def supports?(operation)
      return false if operation == :resize && !Abilities.defines?(self, :resize)

      Abilities.supports?(@target, operation)
    end

    def read(offset, length) = @target.read(offset, length)
    def write(offset, data) = @target.write(offset, data)
    def read_into(buffer, offset) = @target.read_into(buffer, offset)
    def write_from(buffer, offset) = @target.write_from(buffer, offset)
    def flush = @target.flush
    def discard(offset, length) = @target.discard(offset, length)
    def write_zeroes(offset, length, unmap: true) = zero(@target, offset, length, unmap)

    private

    # A target of which this layer may call the form that it calls.
    def even(target) = Abilities.goes_round?(self, target) ? Forms.new(target) : target

    # write_zeroes of any target; one that doesn't take `unmap:` never hears of it.
    def zero(target, offset, length, unmap)
      takes = target.equal?(@target) ? @takes_unmap : Abilities.takes_unmap?(target)
      takes ? target.write_zeroes(offset, length, unmap: unmap) : target.write_zeroes(offset, length)
    end

    # A negative Integer: the other way of refusing a request.
    def refused?(answer) = answer.is_a?(Integer) && answer.negative?

    # For a layer that tells of requests: a line, to anything with `puts`. A request is what it is whether that can be written
    # or not; the first line that can't be is an error on $stderr.
    def tell(to, line)
      to.puts(line)
    rescue SystemCallError, IOError => e
      complain("#{self.class} could not write a line, and says so once: #{e.message}") unless @untold
      @untold = true
    end

    def complain(text)
      warn "ublk: #{text}"
    rescue SystemCallError, IOError
      nil
    end

    # For a layer that needs the bytes: those of the target, binary. Raises what the target's answer stands
    # for.
    def fetch(offset, length)
      data = @target.read(offset, length)
      if data.is_a?(String)
        return data.encoding == Encoding::BINARY ? data : data.b if data.bytesize == length

        returned = "one of #{data.bytesize}"
      end
      check(data)
      raise ContractError, "#{@target.class}#read must return a String of #{length} bytes, and returned " \
                           "#{returned || "an object of class #{data.class}"}"
    end

    # Raises the errno that a negative Integer is; gives everything else back.
    def check(answer)
      raise SystemCallError.new("refused by #{@target.class}", -answer) if refused?(answer)

      answer
    end

    # A write must be the whole of it.
    def check_written(answer, length)
      return length if answer == length

      check(answer)
      raise ContractError, "#{@target.class}#write must return #{length}, and returned " \
                           "#{answer.inspect[0, 80]}"
    end

    # An option's value as its type says, "10M" for :bytes and "250ms" for :duration included. nil stays nil.
    def value(type, name, given)
      given.nil? ? nil : Option.new(name, type).coerce(given)
    rescue ArgumentsError => e
      raise ArgumentError, e.message
    end

    # A set of operations, from one name or a list; nil: all of them.
    def operation_set(given)
      return nil if given.nil?

      Array(given).map(&:to_sym).each do |name|
        next if OPERATIONS.include?(name)

        raise ArgumentError, "#{name.inspect} is no operation: #{OPERATIONS.map(&:inspect).join(", ")}"
      end
    end

    # The block size of a layer's own book-keeping: a power of two from the logical block size up.
    def block_size(given)
      block = value(:bytes, :block, given)
      return block if block.between?(logical_block_size, 1 << 24) && (block & (block - 1)).zero?

      raise ArgumentError, "block must be a power of two from #{logical_block_size} to 16M, " \
                           "not #{given.inspect}"
    end
  end

  # Round a target with two forms of which one is newer, as in a class derived from a hook that has both: whichever is
  # called, it is the newer one that answers.
  class Forms < Layer
    def initialize(target) # rubocop:disable Lint/MissingSuper: goes round what a layer can't
      @target = target
      @takes_unmap = Abilities.takes_unmap?(target)
      @reads_into, @writes_from = %i[read write].map { |operation| Abilities.buffers?(target, operation) }
    end

    def read(offset, length)
      @reads_into ? Buffer.for_read(length) { |buffer| @target.read_into(buffer, offset) } : @target.read(offset, length)
    end

    def write(offset, data)
      @writes_from ? Buffer.for_write(data) { |buffer| @target.write_from(buffer, offset) } : @target.write(offset, data)
    end

    def read_into(buffer, offset)
      return @target.read_into(buffer, offset) if @reads_into

      data = @target.read(offset, buffer.size)
      data.is_a?(Integer) ? data : buffer.set(data)
    end

    def write_from(buffer, offset)
      @writes_from ? @target.write_from(buffer, offset) : @target.write(offset, buffer.get)
    end
  end
end
