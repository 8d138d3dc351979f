# frozen_string_literal: true

require "ublk/errors"

module UBLK
  # The bytes of one request, where the service has them: what `read_into` fills and `write_from` stores. There is no String
  # between, and no object is made for a request.
  #
  # It is good until the method returns. Then every call raises UBLK::BufferError, also in threads and blocks that still have
  # it, until the same object is handed out for another request: never keep it. What is to outlast the request is copied, with
  # `get` or `copy_to`. What a read's buffer holds at first is anything; a write's can't be changed.
  #
  # All offsets and lengths are Integers of bytes. `offset` and `length` are a part of the buffer: all of it, or all from
  # `offset` on, where they are not given. What is not inside raises RangeError, what is no Integer TypeError, and nothing is done.
  #
  # * `size`: of the request.
  # * `get(offset, length)`: a fresh binary String.
  # * `set(data, offset)`: the bytes of a String. Returns how many there are.
  # * `fill(byte = 0, offset, length)`: returns the length.
  # * `zero?(offset, length)`: whether all bytes are 0.
  # * `copy_from(source, source_offset = 0, offset, length)`, `copy_to(target, target_offset = 0, offset, length)`: the other side
  #   is a String, which stays as long as it is, or a UBLK::Memory. Return the length.
  # * `pread(io, position, offset, length)`: bytes of a file. Returns how many there were, less than the length only at the
  #   file's end; the rest of the buffer is as it was. Raises Errno, IOError for a file that is closed or not open for reading.
  # * `pwrite(io, position, offset, length)`: the same to a file: all of them, or it raises.
  #
  # `UBLK::Buffer.for_read(length) { |buffer| … }` and `UBLK::Buffer.for_write(data) { |buffer| … }` lend one of no request for
  # the length of a block: to call a target's buffer form with a String. The first returns what was filled in, a String, if the
  # block returns `length`, and else what the block returns; the second what the block returns. A length that is no Integer is a
  # TypeError, one that no String can have a RangeError.
  #
  # The worker and the extension define it in C before this file is read; a plain interpreter gets one in Ruby.
  unless const_defined?(:Buffer, false)
    class Buffer
      private_class_method :new
      undef_method :freeze, :dup, :clone

      class << self
        def for_read(length)
          raise TypeError, "length must be an Integer of bytes, not #{length.class}" unless length.is_a?(Integer)
          raise RangeError, "length must not be negative, and is #{length}" if length.negative?
          raise RangeError, "length must be below 2^63, and is #{length}" if length.bit_length > 63

          lend("\0".b * length, true) do |buffer|
            answer = yield buffer
            answer == length ? buffer.get : answer
          end
        end

        def for_write(data, &) = lend(data.b, false, &)

        private

        def lend(bytes, writable)
          buffer = new(bytes, writable)
          yield buffer
        ensure
          buffer&.send(:revoke)
        end
      end

      def initialize(bytes, writable)
        @bytes = bytes
        @writable = writable
      end

      def size = bytes.bytesize

      def get(offset = 0, length = rest(offset)) = bytes.byteslice(*part(offset, length)).dup

      def set(data, offset = 0)
        change(offset, data.bytesize) { data.b }
      end

      def fill(byte = 0, offset = 0, length = rest(offset))
        raise TypeError, "byte must be an Integer from 0 to 255, not #{byte.class}" unless byte.is_a?(Integer)
        raise RangeError, "byte must be from 0 to 255, and is #{byte}" unless byte.between?(0, 255)

        change(offset, length) { byte.chr.b * length }
      end

      def zero?(offset = 0, length = rest(offset)) = bytes.byteslice(*part(offset, length)).count("\0") == length

      def copy_from(source, source_offset = 0, offset = 0, length = rest(offset))
        change(offset, length) do
          next source.read(source_offset, length) if source.is_a?(Memory)

          inside(source_offset, length, source.bytesize, "source")
          source.b.byteslice(source_offset, length)
        end
      end

      def copy_to(target, target_offset = 0, offset = 0, length = rest(offset))
        data = get(offset, length)
        return target.write(target_offset, data) if target.is_a?(Memory)

        inside(target_offset, length, target.bytesize, "target")
        encoding = target.encoding
        target.force_encoding(Encoding::BINARY)[target_offset, length] = data
        length
      ensure
        target.force_encoding(encoding) if encoding
      end

      def pread(io, position, offset = 0, length = rest(offset))
        part(offset, length)
        writable
        done = 0
        done += set(io.pread(length - done, position + done), offset + done) while done < length
        done
      rescue EOFError
        done
      end

      def pwrite(io, position, offset = 0, length = rest(offset))
        data = get(offset, length)
        done = 0
        done += io.pwrite(data.byteslice(done..), position + done) while done < length
        done
      end

      def inspect = @bytes ? "#<UBLK::Buffer #{@bytes.bytesize} bytes>" : "#<UBLK::Buffer of an answered request>"

      private

      def bytes
        @bytes or raise BufferError, "this buffer's request has been answered: what is to outlast it has to be copied, with get"
      end

      def revoke = @bytes = nil

      def writable
        raise BufferError, "the bytes of a write are the client's: they can't be changed" unless @writable
      end

      def rest(offset) = offset.is_a?(Integer) ? [size - offset, 0].max : 0

      def part(offset, length) = inside(offset, length, size, "buffer")

      def inside(offset, length, size, what)
        { offset: offset, length: length }.each do |name, n|
          raise TypeError, "#{name} must be an Integer of bytes, not #{n.class}" unless n.is_a?(Integer)
          raise RangeError, "#{name} must not be negative, and is #{n}" if n.negative?
        end
        return [offset, length] if offset + length <= size

        raise RangeError, "#{length} bytes at #{offset} are outside of the #{what}, which has #{size}"
      end

      # Puts what the block makes in place.
      def change(offset, length)
        part(offset, length)
        writable
        bytes[offset, length] = yield
        length
      end
    end
  end
end
