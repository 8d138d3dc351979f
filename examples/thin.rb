require "ublk/autorun"

# A thin disk: as large as one likes, in a sparse file that has only what was written. Chunks of 64 KiB get a place in
# the file when they are first written to, and lose it when they are discarded.
#
#   truncate -s 0 /srv/thin.img && chown ublk-ruby /srv/thin.img
#   ublkctl create big thin path=/srv/thin.img size=1T
#   ruby examples/thin.rb path=/srv/thin.img size=1T
#
# In the file: a page that says what it is; the table, which has for each chunk of the disk the number of its place, 0 if
# it has none; the places. One rule keeps it whole through any crash: a place that is in no entry is a hole, and is that
# on the disk before it is given out.
#
#   * A new chunk is then zeroes whether its data is there yet or not, and zeroes is what it was. So entry and data may
#     reach the disk in either order, and nothing has to be synced but by a flush.
#   * A place that was given back waits for the next flush: until then a power failure might bring its old entry back.
#   * After a crash the rule is made true again before anything is served.
class Thin < UBLK::Target
  MAGIC = "UBLKTHIN"
  HEADER = "a8Q<"                        # MAGIC, size of the disk
  PAGE = 4096
  CHUNK = 64 << 10
  PLACES_MAX = (1 << 32) - 1             # an entry has four bytes

  option :path, :path, required: true, doc: "the file; an empty one becomes a new disk"
  option :size, :bytes, doc: "of a new disk"
  recovery :reissue                      # all that was answered is in the file

  def initialize(path:, size: nil)
    @path = path
    @file = File.open(path, "r+b")
    UBLK::FileLock.take(@file, path)
    super(size: @file.size.zero? ? size_of_new(size) : size_of_known(size))
    write_header if @file.size.zero?
    @places = round_up(PAGE + round_up(self.size) / CHUNK * 4)
    @lock = Mutex.new                    # while a request has it, no place changes hands
    load_table
  end

  def read(offset, length)
    data = String.new(capacity: length)
    @lock.synchronize do
      each_part(offset, length) do |chunk, at, count|
        data << (@table[chunk] ? fetch(position(@table[chunk]) + at, count) : "\0".b * count)
      end
    end
    data
  end

  def write(offset, data)
    done = 0
    @lock.synchronize do
      each_part(offset, data.bytesize) do |chunk, at, count|
        store(data.byteslice(done, count), position(@table[chunk] || give(chunk)) + at)
        done += count
      end
    end
    done
  end

  # Only places that were given back before it are free afterwards.
  def flush
    returned = @lock.synchronize { @returned.tap { @returned = [] } }
    @file.fdatasync
    @lock.synchronize { @free.concat(returned) }
  end

  # Of a terabyte that is discarded only what is there is looked at.
  def discard(offset, length)
    chunks = offset / CHUNK..(offset + length - 1) / CHUNK
    @lock.synchronize do
      (chunks.size > @table.size ? @table.keys : chunks).each do |chunk|
        forget(chunk, offset, offset + length) if chunks.cover?(chunk) && @table[chunk]
      end
    end
    0
  end

  alias write_zeroes discard

  private

  # Yields the number of each chunk in a range, and the part of it: offset in the chunk, and length.
  def each_part(offset, length)
    finish = offset + length
    while offset < finish
      chunk, at = offset.divmod(CHUNK)
      count = [CHUNK - at, finish - offset].min
      yield chunk, at, count
      offset += count
    end
  end

  def position(place) = @places + (place - 1) * CHUNK
  def round_up(bytes) = (bytes + CHUNK - 1) / CHUNK * CHUNK

  # The file grows first, so that no read meets its end.
  def give(chunk)
    place = @free.pop || grow(@count + 1)
    enter(chunk, place)
    @table[chunk] = place
  end

  # What of a chunk is in start...finish. If it ended before the entry is gone, the chunk would be zeroes all the same.
  def forget(chunk, start, finish)
    first = chunk * CHUNK
    last = [first + CHUNK, size].min
    from = [start, first].max
    to = [finish, last].min
    clear(position(@table[chunk]) + from - first, to - from)
    return unless [from, to] == [first, last]

    enter(chunk, 0)
    @returned << @table.delete(chunk)
  end

  def enter(chunk, place) = store([place].pack("L<"), PAGE + chunk * 4)

  def grow(count)
    raise Errno::ENOSPC if count > PLACES_MAX

    @file.truncate(position(count + 1)) if @file.size < position(count + 1)
    @count = count
  end

  def load_table
    @table = {}                          # place by chunk
    each_entry { |chunk, place| @table[chunk] = place }
    raise UBLK::Error, "#{@path} is damaged: two chunks have one place" unless @table.values.uniq.size == @table.size

    grow([@table.values.max || 0, (@file.size - @places) / CHUNK].max)
    @free = [*1..@count] - @table.values
    @free.each { |place| clear(position(place), CHUNK) }
    @returned = []
    @file.fdatasync
  end

  # The table is mostly holes.
  def each_entry
    at = PAGE
    loop do
      @file.seek(at, IO::SEEK_DATA)
      at = @file.pos & -PAGE
      return if at >= @places

      @file.pread(PAGE, at).unpack("L<*").each_with_index { |place, i| yield (at - PAGE) / 4 + i, place if place.positive? }
      at += PAGE
    end
  rescue Errno::ENXIO
    nil                                  # no data from there on
  end

  def size_of_new(size)
    return size if size && size <= CHUNK * PLACES_MAX

    raise ArgumentError, "#{@path} is empty: give size, that of the new disk, #{CHUNK * PLACES_MAX} bytes at most"
  end

  def size_of_known(wanted)
    magic, size = @file.pread(PAGE, 0).unpack(HEADER)
    raise ArgumentError, "#{@path} is no thin disk, and not empty" unless magic == MAGIC
    raise ArgumentError, "#{@path} is a disk of #{size} bytes, not #{wanted}" unless [nil, size].include?(wanted)

    size
  end

  def write_header
    store([MAGIC, size].pack(HEADER).ljust(PAGE, "\0"), 0)
    @file.fsync
  end

  def fetch(position, length)
    data = UBLK::Sys.pread(@file, length, position)
    raise EOFError, "#{@path} was cut off" if data.bytesize < length

    data
  end

  def store(data, position) = UBLK::Sys.pwrite(@file, data, position)

  # Makes a hole, or zeroes where the file system has no holes.
  def clear(position, length)
    UBLK::Sys.punch_hole(@file, position, length)
  rescue Errno::EOPNOTSUPP
    store("\0".b * length, position)
  end
end
