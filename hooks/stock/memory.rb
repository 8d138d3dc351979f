# frozen_string_literal: true

# A disk in the worker's memory. Sparse: what was never written, or was discarded, takes none. It ends with
# the worker: recovery is :none, so that no file system ever finds an empty disk in its place.
class MemoryDisk < UBLK::Target
  CHUNK = 1024 * 1024

  # A slice that reaches a String's end shares its memory, and the next write to the String copies all of it.
  # No request reaches the end of a chunk that is one byte longer than it needs to be.
  SLACK = 1

  option :size, :bytes, required: true, doc: "size of the disk"
  recovery :none

  def initialize(size:)
    super
    @chunks = {} # by number: binary Strings of CHUNK + SLACK bytes
    @lock = Mutex.new # two queues may be the first to write to one chunk
    @zeroes = ("\0".b * (CHUNK + SLACK)).freeze
  end

  def read(offset, length)
    number, at = offset.divmod(CHUNK)
    return read_chunk(number, at, length) if at + length <= CHUNK

    data = String.new(capacity: length)
    each_part(offset, length) { |index, start, count| data << read_chunk(index, start, count) }
    data
  end

  def write(offset, data)
    number, at = offset.divmod(CHUNK)
    length = data.bytesize
    if at + length <= CHUNK
      chunk(number)[at, length] = data
    else
      done = 0
      each_part(offset, length) do |index, start, count|
        chunk(index)[start, count] = data.byteslice(done, count)
        done += count
      end
    end
    length
  end

  # Whole chunks are given back, the rest is filled with zeroes.
  def discard(offset, length)
    each_part(offset, length) do |number, at, count|
      if count == CHUNK
        @chunks.delete(number)
      elsif (chunk = @chunks[number])
        chunk[at, count] = @zeroes.byteslice(0, count)
      end
    end
    0
  end

  def write_zeroes(offset, length) = discard(offset, length)

  private

  def chunk(number)
    @chunks[number] || @lock.synchronize { @chunks[number] ||= String.new(@zeroes) }
  end

  def read_chunk(number, at, length)
    (@chunks[number] || @zeroes).byteslice(at, length)
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
