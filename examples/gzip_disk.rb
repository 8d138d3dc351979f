require "ublk/autorun"
require "fiddle/import"

# The image in a .gz file, read-only and without unpacking it.
#
#   ublkctl create old gzip_disk path=/srv/disk.img.gz
#   ruby examples/gzip_disk.rb path=/srv/disk.img.gz
#
# The file is read once when the disk is made, as `gzip -t` does. That finds its size and what is wrong with it, and
# leaves up to 256 points (10 MiB of memory) where inflating can start again. A worker that takes over does it once
# more; where it takes longer than 20 s the device needs a start-timeout.
class GzipDisk < UBLK::Target
  # zlib: Ruby's Zlib can't copy an inflater that is in the middle of its work.
  module Z
    extend Fiddle::Importer
    dlload "libz.so.1"
    Stream = struct ["void *next_in", "unsigned int avail_in", "unsigned long total_in",
                     "void *next_out", "unsigned int avail_out", "unsigned long total_out",
                     "char *msg", "void *state", "void *zalloc", "void *zfree", "void *opaque",
                     "int data_type", "unsigned long adler", "unsigned long reserved"]
    extern "char *zlibVersion()"
    extern "int inflateInit2_(void *, int, char *, int)"
    extern "int inflateCopy(void *, void *)"
    extern "int inflateReset(void *)"
    extern "int inflate(void *, int)"
    extern "int inflateEnd(void *)"

    GZIP = 16 + 15 # windowBits: with gzip's header, and its checksum, which zlib compares
    STREAM_END = 1
    GOES_ON = [0, -5].freeze # Z_OK; Z_BUF_ERROR: it needs more of the file
  end

  class Damaged < ArgumentError
  end

  # Makes the disk out of the file, from some place on.
  class Inflater
    PIECE = 64 * 1024

    def self.finalizer(stream) = proc { Z.inflateEnd(stream) }

    # Up to where the disk is made.
    attr_reader :output

    def initialize(file)
      @file = file
      @input = @output = 0
      @ended = false
      @stream = stream
      @stream.to_ptr[0, Z::Stream.size] = "\0" * Z::Stream.size
      Z.inflateInit2_(@stream, Z::GZIP, Z.zlibVersion, Z::Stream.size).zero? or raise NoMemoryError
    end

    # A copy goes on from the same place.
    def initialize_copy(other)
      original = @stream
      super
      @stream = stream
      Z.inflateCopy(@stream, original).zero? or raise NoMemoryError
    end

    def ended? = @ended
    def close = Z.inflateEnd(@stream)

    # Goes on by `length` bytes of the disk, fewer only at its end, and appends them to `data`, if there is any.
    def advance(length, data = nil)
      source, sink = Array.new(2) { Fiddle::Pointer.malloc(PIECE, Fiddle::RUBY_FREE) }
      while length.positive? && !@ended
        fill(source) if @stream.avail_in.zero?
        count = inflate(sink, [length, PIECE].min)
        data << sink[0, count] if data
        length -= count
      end
      @input -= @stream.avail_in # to be read again
      @stream.avail_in = 0
    end

    private

    # Whose memory is freed with the object, if `close` did not do it before; dup copies the original's finalizer.
    def stream
      ObjectSpace.undefine_finalizer(self)
      Z::Stream.malloc(Fiddle::RUBY_FREE).tap { |stream| ObjectSpace.define_finalizer(self, Inflater.finalizer(stream)) }
    end

    def fill(source)
      bytes = @file.pread(PIECE, @input)
      source[0, bytes.bytesize] = bytes
      @stream.next_in = source
      @stream.avail_in = bytes.bytesize
      @input += bytes.bytesize
    rescue EOFError
      raise Damaged, "#{@file.path} ends in the middle of its data"
    end

    # The number of bytes that are in sink now.
    def inflate(sink, room)
      @stream.next_out = sink
      @stream.avail_out = room
      code = Z.inflate(@stream, 0)
      raise Damaged, "#{@file.path}: #{@stream.msg} near byte #{position}" unless code == Z::STREAM_END || Z::GOES_ON.include?(code)

      room -= @stream.avail_out
      @output += room
      finish_member if code == Z::STREAM_END
      room
    end

    # What `cat a.gz b.gz` makes goes on with a header.
    def finish_member
      @ended = position == @file.size
      Z.inflateReset(@stream)
    end

    def position = @input - @stream.avail_in
  end

  POINTS = 256
  IDLE = 4

  option :path, :path, required: true, doc: "of the image's .gz file"
  recovery :reissue                      # the file outlives the worker

  def initialize(path:)
    @file = File.open(path, "rb")
    @state = state
    @lock = Mutex.new
    @idle = []                           # inflaters that earlier reads have left where they ended
    @spacing = 1 << 20
    super(size: index)
  end

  def read_only? = true

  def read(offset, length)
    raise Errno::EIO, "#{@file.path} has changed since the disk was made" unless state == @state

    data = String.new(capacity: length)
    inflater = take(offset)
    inflater.advance(offset - inflater.output)
    inflater.advance(length, data)
    leave(inflater)
    data
  end

  private

  def state = @file.stat.then { |stat| [stat.size, stat.mtime] }

  # Leaves a point at every multiple of @spacing, which doubles when they become too many. Returns the disk's size.
  def index
    inflater = Inflater.new(@file)
    @points = []
    until inflater.ended?
      thin if @points.size == POINTS
      @points << inflater.dup
      inflater.advance(@spacing)
    end
    inflater.output
  end

  def thin
    @points, dropped = @points.partition.with_index { |_, i| i.even? }
    dropped.each(&:close)
    @spacing *= 2
  end

  # The inflater nearest before offset: one that a read has left, which the next one of a sequence goes on with, or a
  # copy of a point. Nobody else has it then.
  def take(offset)
    @lock.synchronize do
      idle = @idle.select { |inflater| inflater.output <= offset }.max_by(&:output)
      point = @points[offset / @spacing]
      idle && idle.output >= point.output ? @idle.delete(idle) : point.dup
    end
  end

  def leave(inflater)
    @lock.synchronize do
      @idle << inflater
      @idle.shift.close if @idle.size > IDLE
    end
  end
end
