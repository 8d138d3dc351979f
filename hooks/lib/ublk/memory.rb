# frozen_string_literal: true

module UBLK
  # Bytes in memory that survive a crash of the worker: systemd keeps them for the unit, and the next worker finds them.
  # A hook whose data lies there and nowhere else can say `recovery :reissue`.
  #
  # They last as long as the unit does: over crashes, `ublkctl restart`, `systemctl restart`. They end when the unit is
  # stopped, fails, or the machine is stopped. A device that was live and whose memory is lost is never given an empty one:
  # its worker ends, and the device's LastError says why.
  #
  # In a worker it is made in `initialize` only. In a program of its own, it is memory of that process.
  #
  # * `UBLK::Memory.new(size, name: "data")`: size bytes, an Integer above 0, all zero and taking no room yet. A hook with
  #   more than one (COUNT_MAX at most) gives each a name: 1 to NAME_MAX of a-z, 0-9, _ and -. Raises UBLK::MemoryError
  #   where a known device's is lost, had another size, or never was; ArgumentError, TypeError; Errno::ENOMEM.
  # * `read(offset, length)`: a fresh binary String.
  # * `write(offset, data)`: the number of bytes, all of them.
  # * `zero(offset, length)`: the range reads as zeroes from then on, and whole pages of it are given back. 0.
  # * `size`, `name`.
  #
  # Offsets and lengths are bytes. What is not inside raises IndexError, and nothing is done.
  #
  # The worker and the extension define it in C before this file is read; a plain interpreter gets one in Ruby.
  unless const_defined?(:Memory, false)
    class Memory
      COUNT_MAX = 16
      NAME_MAX = 32
      CHUNK = 1024 * 1024

      # A slice that reaches a String's end shares its memory, and the next write to the String copies all of it.
      # Nothing reaches the end of a chunk that is one byte longer than it needs to be.
      SLACK = 1

      private_constant :CHUNK, :SLACK

      attr_reader :size, :name

      def initialize(size, name: "data")
        raise TypeError, "size must be an Integer of bytes, not #{size.class}" unless size.is_a?(Integer)
        raise ArgumentError, "size must be above 0 and below 2^62, not #{size}" unless size.positive? && size.bit_length <= 62
        unless name.to_s.match?(/\A[a-z0-9_-]{1,#{NAME_MAX}}\z/o)
          raise ArgumentError, "name must be 1 to #{NAME_MAX} of a-z, 0-9, _ and -, not #{name.inspect}"
        end

        @size = size
        @name = name.to_s
        @chunks = {} # by number: binary Strings of CHUNK + SLACK bytes
        @lock = Mutex.new # two queues may be the first to write to one chunk
        @zeroes = ("\0".b * (CHUNK + SLACK)).freeze
      end

      def read(offset, length)
        check(offset, length)
        data = String.new(capacity: length)
        each_part(offset, length) { |number, at, count| data << (@chunks[number] || @zeroes).byteslice(at, count) }
        data
      end

      def write(offset, data)
        length = data.bytesize
        check(offset, length)
        done = 0
        each_part(offset, length) do |number, at, count|
          chunk(number)[at, count] = data.byteslice(done, count).b
          done += count
        end
        length
      end

      def zero(offset, length)
        check(offset, length)
        each_part(offset, length) do |number, at, count|
          if count == CHUNK
            @chunks.delete(number)
          elsif (chunk = @chunks[number])
            chunk[at, count] = @zeroes.byteslice(0, count)
          end
        end
        0
      end

      def inspect = "#<UBLK::Memory #{name.inspect} #{size}>"

      private

      def check(offset, length)
        [offset, length].each { |n| raise TypeError, "Integers of bytes are wanted, not #{n.class}" unless n.is_a?(Integer) }
        return if offset >= 0 && length >= 0 && offset + length <= size

        raise IndexError, "#{length} bytes at #{offset} are outside of the memory #{name.inspect}, which has #{size}"
      end

      def chunk(number)
        @chunks[number] || @lock.synchronize { @chunks[number] ||= String.new(@zeroes) }
      end

      # Yields chunk number, offset in it, and length for each piece of a range.
      def each_part(offset, length)
        while length.positive?
          number, at = offset.divmod(CHUNK)
          count = [CHUNK - at, length].min
          yield number, at, count
          offset += count
          length -= count
        end
      end
    end
  end
end
