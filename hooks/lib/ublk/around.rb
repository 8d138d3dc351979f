# frozen_string_literal: true

require "ublk/layer"

module UBLK
  # A layer that does the same round every operation: define `around(op, offset, length)`, and call its block
  # to go on. What the block returns is the target's answer; what `around` returns is the layer's. For a read that is a
  # String, or, where the target is given a UBLK::Buffer, the number of bytes.
  #
  #     class Slow < UBLK::Around
  #       def around(_op, _offset, _length)
  #         sleep 0.01
  #         yield
  #       end
  #     end
  class Around < Layer
    # op: a Symbol, :read to :write_zeroes. offset, length: bytes; both 0 for a flush.
    def around(_op, _offset, _length) = yield

    def read(offset, length) = around(:read, offset, length) { @target.read(offset, length) }
    def write(offset, data) = around(:write, offset, data.bytesize) { @target.write(offset, data) }
    def resize(bytes) = @target.resize(bytes)
    def read_into(buffer, offset) = around(:read, offset, buffer.size) { @target.read_into(buffer, offset) }
    def write_from(buffer, offset) = around(:write, offset, buffer.size) { @target.write_from(buffer, offset) }
    def flush = around(:flush, 0, 0) { @target.flush }
    def discard(offset, length) = around(:discard, offset, length) { @target.discard(offset, length) }

    def write_zeroes(offset, length, unmap: true)
      around(:write_zeroes, offset, length) { zero(@target, offset, length, unmap) }
    end
  end
end
