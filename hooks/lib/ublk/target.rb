# frozen_string_literal: true

require "ublk/declarations"
require "ublk/errors"

module UBLK
  # A disk as Ruby sees it. A hook script defines one subclass; the worker makes one object of it and calls it
  # for every request.
  #
  # Offsets and lengths are bytes and multiples of the logical block size; a request never crosses the end of
  # the disk. Strings are binary. Any `Errno::X` that a method raises, or a negative Integer that it returns,
  # is the errno that the client sees; any other exception is EIO. Neither ends the device.
  class Target
    extend Declarations

    SIZE_LIMIT = 1 << 63
    OPERATIONS = %i[read write flush discard write_zeroes].freeze

    # Classes that were derived from this one, each with the file that did it; newest last. For the worker.
    @derived = []
    singleton_class.attr_reader :derived

    # Records where the class was written, so that the worker finds the one that a script defines.
    def self.inherited(subclass)
      super
      frame = caller_locations(1).find { |location| location.path != __FILE__ && !location.path.start_with?("<internal:") }
      Target.derived << [subclass, frame&.path]
    end

    # Whether its objects go round another target: UBLK::Layer says yes.
    def self.layer? = false

    # Bytes.
    attr_reader :size

    # How many queues and how many requests in each `UBLK::Device.create` makes unless it is told otherwise; a
    # device of the service has options for that.
    def queues = @queues || 1
    def depth = @depth || 128

    # size: bytes, above 0, below 2^63, a multiple of the logical block size. queues, depth: 1 to 4096. Raises
    # ArgumentError.
    def initialize(size:, queues: 1, depth: 128)
      @size = check_size(size)
      @queues = check_count(:queues, queues)
      @depth = check_count(:depth, depth)
    end

    # Returns a String of exactly `length` bytes. A target that defines `read_into` needs none: this one is then for layers
    # that want a String.
    def read(offset, length)
      return Buffer.for_read(length) { |buffer| read_into(buffer, offset) } if Abilities.defines?(self, :read_into)

      raise NotImplementedError, "#{self.class} does not define read(offset, length)"
    end

    # Stores `data`, a String that belongs to the hook from now on. Returns the number of bytes: all of them. Without it
    # `write_from` does it.
    def write(offset, data)
      return Buffer.for_write(data) { |buffer| write_from(buffer, offset) } if Abilities.defines?(self, :write_from)
      raise Errno::EROFS if read_only?

      raise NotImplementedError, "#{self.class} does not define write(offset, data)"
    end

    # The fast form of read: fills `buffer`, a UBLK::Buffer, whose size is the request's. Returns the number of bytes, all
    # of them. The service uses it if a target has it, and then makes no String.
    def read_into(buffer, offset)
      raise NotImplementedError, "#{self.class} does not define read_into(buffer, offset)" unless Abilities.defines?(self, :read)

      data = read(offset, buffer.size)
      data.is_a?(Integer) ? data : buffer.set(data)
    end

    # The fast form of write: stores what is in `buffer`. Returns the number of bytes: all of them.
    def write_from(buffer, offset) = write(offset, buffer.get)

    # Returns once everything that was written is durable; a negative Integer refuses.
    def flush = 0

    # The range's data is no longer needed. Defining this advertises it. Up to 4 GiB at a time.
    def discard(_offset, _length)
      raise Errno::EOPNOTSUPP
    end

    # The range reads as zeroes from now on. May take the keyword `unmap:`, false where it must stay
    # allocated. Without this method the kernel writes zeroes itself.
    def write_zeroes(_offset, _length)
      raise Errno::EOPNOTSUPP
    end

    # Makes the disk `bytes` long, a multiple of the logical block size: the backing store is so when this returns. Returns the
    # new size, an Integer of bytes, which may be another one that is possible; or refuses, with a negative Integer or an
    # Errno. Called between two requests of the first queue. Without this method a disk keeps its size.
    def resize(_bytes)
      raise Errno::EOPNOTSUPP
    end

    # The smallest unit of a request: 512, 1024, 2048 or 4096 bytes.
    def logical_block_size = 512

    # What is best written at once, in bytes: a power of two, not below the logical block size.
    def physical_block_size = 4096

    def read_only? = false

    def rotational? = false

    private

    # `size` from now on.
    def become(bytes) = @size = check_size(bytes)

    # See UBLK.state_directory.
    def state_directory = UBLK.state_directory

    def check_count(name, count)
      return count if count.is_a?(Integer) && count.between?(1, 4096)

      raise ArgumentError, "#{name} must be an Integer from 1 to 4096, not #{count.inspect[0, 80]}"
    end

    def check_size(size)
      raise ArgumentError, "size must be an Integer of bytes, not #{size.inspect[0, 80]}" unless size.is_a?(Integer)
      raise ArgumentError, "size must be above 0, not #{size}" unless size.positive?
      raise ArgumentError, "size must be below 2^63, which #{size} is not" unless size < SIZE_LIMIT
      return size if (size % logical_block_size).zero?

      raise ArgumentError, "size must be a multiple of #{logical_block_size}, the logical block size, which #{size} is not"
    end
  end
end
