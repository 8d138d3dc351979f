require "ublk/autorun"
require "set"
require_relative "file_disk"

# RAID 1: every block in two files, the legs. One may fail, or be away for a while, and the disk goes on.
#
#   ublkctl create safe mirror first=/srv/a.img second=/mnt/other/b.img
#   ruby examples/mirror.rb first=/srv/a.img second=/mnt/other/b.img state=/var/lib/mirror
#
# A new mirror is a copy of the first leg; the second is overwritten. The last 4 KiB of each leg are the mirror's record,
# the rest is a plain image. Without the map, which a deleted device takes along, the legs can still be put together: the
# older one is copied whole.
#
#   * Before something is written its region is marked in a map, in the directory `state`. Only where there is a mark
#     can a crash have left the legs different, and only there they are made equal afterwards.
#   * A leg that missed a write is behind. It is not read again before it has been given everything, which the marks
#     tell: as long as a leg is behind none is taken away.
#   * That a leg is behind is on record before the write is answered: the other leg gets a new state, and keeps the one
#     that both had as its base.
class Mirror < UBLK::Target
  REGION = 1 << 20
  PAGE = 4096
  FAILURES = [SystemCallError, IOError, UBLK::Error].freeze

  def self.new_id = Random.urandom(8).unpack1("Q<") | 1

  # A leg's file, which nobody else may use.
  class Image < FileDisk
    def initialize(path:)
      super
      UBLK::FileLock.take(@file, path)
    end

    # What a file has lost that was cut off would read as zeroes once it is longer again.
    def write(offset, data)
      raise EOFError, "it was cut off" if @file.size < size

      super
    end

    def read_only? = false               # it is repaired, whoever reads it
    def close = @file.close
  end

  # A target with a record on its last page. base: 0 while both legs have everything. map: the id of the map.
  class Leg
    MAGIC = "UBLKMIRR"
    Record = Struct.new(:size, :state, :base, :map)

    attr_reader :name, :record

    # The block makes the target.
    def initialize(name, &target)
      @name = name
      @make = target
    end

    # Once more when it has been away. A leg without a record is a new one.
    def open
      @target.close if @target.respond_to?(:close)
      @target = @make.call
      page = read(room, PAGE)
      magic, *facts = page.unpack("a8Q<4")
      @record = (Record.new(*facts) if magic == MAGIC)
      return if @record || page.count("\0") == PAGE

      raise UBLK::Error, "the last #{PAGE} bytes of #{name} hold data: make it longer by that, for the mirror's record"
    end

    def record=(record)
      write(room, [MAGIC, *record].pack("a8Q<4").ljust(PAGE, "\0"))
      flush
      @record = record
    end

    # Bytes in front of the record.
    def room = @target.size - PAGE

    def read(offset, length)
      data = @target.read(offset, length)
      data.is_a?(String) && data.bytesize == length ? data : raise(Errno::EIO, name)
    end

    def write(offset, data) = @target.write(offset, data.dup) == data.bytesize || raise(Errno::EIO, name)

    def flush
      answer = @target.flush
      raise Errno::EIO, name if answer.is_a?(Integer) && answer.negative?
    end
  end

  # A file: its id, the states of which a leg may be that is there alone, and from the second page on a byte for each
  # region, 1 for a mark.
  class Map
    attr_reader :id, :states

    def initialize(path)
      @file = File.open(path, File::RDWR | File::CREAT | File::BINARY, 0o600)
      UBLK::FileLock.take(@file, path)
      @id, *@states = @file.pread(24, 0).unpack("Q<3") unless @file.size.zero?
    end

    def load(count) = @marks = @file.pread(PAGE + count, 0)[PAGE..].to_s.ljust(count, "\1")

    # For legs of which nothing is known.
    def reset(count, state)
      mark_all(count)
      @id = Mirror.new_id
      accept(state, state)
    end

    def accept(state, other)
      @file.pwrite([id, state, other].pack("Q<3"), 0)
      @file.fdatasync
      @states = [state, other]
    end

    def mark_all(count)
      @file.pwrite("\1" * count, PAGE)
      @file.fdatasync
      @marks = "\1".b * count
    end

    def mark(regions) = set(regions.reject { |n| @marks.getbyte(n) == 1 }, 1)
    def unmark(regions) = set(regions, 0)

    # The numbers of the regions that have a mark.
    def marked
      found = []
      at = -1
      found << at while (at = @marks.index("\1", at + 1))
      found
    end

    private

    def set(regions, value)
      return if regions.empty?

      regions.each { |n| @file.pwrite(value.chr, PAGE + n) }
      @file.fdatasync
      regions.each { |n| @marks.setbyte(n, value) }
    end
  end

  option :first, :path, required: true, doc: "a leg; the data of a new mirror"
  option :second, :path, required: true, doc: "the other leg"
  option :state, :path, doc: "directory for the map; the service's own if not given"
  option :interval, :duration, default: "10s", doc: "how often a leg that is behind is looked for"
  recovery :reissue                      # what was answered is on every leg that is not behind

  def initialize(first:, second:, interval: 10, state: UBLK.state_directory)
    @legs = [first, second].map { |path| Leg.new(path) { target_at(path) } }
    @map = Map.new(File.join(state, "mirror.map"))
    @lock = Mutex.new                    # for whatever writes
    @recent = Set.new                    # regions that were written since the last flush
    @current = newest(@legs.select { |leg| attempt(leg) { leg.open } })
    super(size: @current.first.record.size)
    load_map
    assemble
    watch(interval)
  end

  def read(offset, length)
    @lock.synchronize { put_on_record if @base } if @base
    legs = @current.rotate(offset / REGION)
    data = nil
    good = legs.index { |leg| data = attempt(leg) { leg.read(offset, length) } }
    raise Errno::EIO, "no leg can be read at #{offset}" unless good

    attempt(legs[good]) { repair(legs.first(good), legs[good], offset, length) } if good.positive?
    data
  end

  def write(offset, data)
    @lock.synchronize do
      mark(offset, data.bytesize)
      on_legs { |leg| leg.write(offset, data) }
    end
    data.bytesize
  end

  # A region whose last write was durable with the flush before needs its mark no more.
  def flush
    @lock.synchronize do
      quiet = @map.marked - @recent.to_a
      @recent.clear
      on_legs(&:flush)
      @map.unmark(quiet) unless @behind
    end
  end

  private

  # What a leg is; any target will do.
  def target_at(path) = Image.new(path: path)

  def watch(interval)
    Thread.new do
      loop do
        catch_up if @behind
        sleep(interval)
      end
    end
  end

  # What the block returns, or true; nil if it failed.
  def attempt(leg)
    yield || true
  rescue *FAILURES => e
    say "#{leg.name}: #{e.message}"
  end

  def say(text)
    warn "mirror: #{text}" unless text == @said
    @said = text
    nil
  rescue SystemCallError, IOError
    nil                                  # a leg that failed has to be left all the same
  end

  # Those of the legs that are there that have everything.
  def newest(there)
    known = there.select(&:record)
    return create(there) if known.empty?
    return vouched(known) if known.one?

    a, b = known.map(&:record)
    return known if a.state == b.state
    return known.first(1) if a.base == b.state
    return known.last(1) if b.base == a.state

    raise UBLK::Error, "#{names(known)} have gone different ways. #{REMEDY}"
  end

  REMEDY = "Take the record away from the one that is to be overwritten: truncate -s -4096 FILE; truncate -s +4096 FILE"
  private_constant :REMEDY

  # From both legs; one that could not be opened says once more why.
  def create(there)
    (@legs - there).each(&:open)
    raise UBLK::Error, "there is a map, but neither leg has a record. For a new mirror, remove the map" if @map.id

    size = there.map(&:room).min
    state = Mirror.new_id
    @map.reset(regions(0, size).size, state)
    there.first.record = Leg::Record.new(size, state, 0, @map.id)
    there.first(1)
  end

  # It is the only one. Was nothing newer on the other?
  def vouched(known)
    return known if @map.states&.include?(known.first.record.state)

    raise UBLK::Error, "#{names(known)} may be older than what #{names(@legs - known)} had"
  end

  def names(legs) = legs.map(&:name).join(" and ")

  def load_map
    record = @current.first.record
    count = regions(0, size).size
    return @map.load(count) if @map.id == record.map

    @map.reset(count, record.state)
    @current.each { |leg| leg.record = Leg::Record.new(size, record.state, record.base, @map.id) }
  end

  # Whoever may lack something is behind, on record, before anything is served. After a crash that is the second leg:
  # until it has been made equal where there are marks the first alone is read.
  def assemble
    crashed = @map.marked.any? || @current.any? { |leg| leg.record.base.positive? }
    lacking = (@legs - @current).first || (@legs.last if crashed)
    leave(lacking) if lacking
  end

  def regions(offset, length) = offset / REGION..(offset + length - 1) / REGION

  def mark(offset, length)
    @map.mark(regions(offset, length))
    @recent.merge(regions(offset, length))
  end

  # Something is done on every leg that is there. Those on which it fails are behind; if there is no other, it has failed.
  def on_legs
    put_on_record if @base
    failed = {}
    [*@current, *@joining].each do |leg|
      yield leg
    rescue *FAILURES => e
      failed[leg] = e
      say "#{leg.name}: #{e.message}"
    end
    return if failed.empty?

    @joining = nil
    lost = @current & failed.keys
    all = lost == @current
    leave(lost.last) if lost.any? && @current.size == 2
    raise failed[lost.first] if all
  end

  # A leg misses something. It is behind the state that both legs had when it was last up to date.
  def leave(leg)
    record = (@legs - [leg]).first.record
    @base = @current.include?(leg) || record.base.zero? ? record.state : record.base
    @current = @legs - [leg]
    @behind = leg
    say "#{leg.name} is behind, going on with #{names(@current)}"
    put_on_record
  end

  # Nothing is answered before this is done. Killed in between, both states are good enough: nothing was answered.
  def put_on_record
    leg = @current.first
    state = Mirror.new_id
    @map.accept(leg.record.state, state)
    leg.record = Leg::Record.new(size, state, @base, @map.id)
    @map.accept(state, state)
    @base = nil
  end

  # Writes what could not be read; as it is now, it may have been written meanwhile.
  def repair(bad, good, offset, length)
    @lock.synchronize do
      next unless @current.size == 2

      mark(offset, length)
      data = good.read(offset, length)
      bad.each { |leg| attempt(leg) { leg.write(offset, data) } || leave(leg) }
    end
  end

  # Gives the leg that is behind all that it lacks. Requests come in between, and go to it as well.
  def catch_up
    leg = @behind
    leg.open
    lacks = @lock.synchronize { join(leg) }
    say "#{leg.name} lacks #{lacks.size} MiB"
    lacks.each do |region|
      @lock.synchronize { @joining ? copy(region, leg) : return }
      sleep 0.001
    end
    @lock.synchronize { joined(leg) if @joining }
  rescue *FAILURES => e
    @joining = nil
    say "#{leg.name} is behind: #{e.message}"
  end

  # The regions that it lacks.
  def join(leg)
    put_on_record if @base
    raise UBLK::Error, "it is smaller than the disk" if leg.room < size
    raise UBLK::Error, "it has gone a different way. #{REMEDY}" unless [nil, @current.first.record.base].include?(leg.record&.state)

    @map.mark_all(regions(0, size).size) unless leg.record
    @joining = leg
    @map.marked
  end

  def copy(region, leg)
    offset = region * REGION
    leg.write(offset, @current.first.read(offset, [REGION, size - offset].min))
  end

  # With its record it has everything, whatever happens to the other one's.
  def joined(leg)
    on_legs(&:flush)
    return unless @joining

    other = @current.first
    leg.record = Leg::Record.new(size, other.record.state, 0, @map.id)
    @current = @legs
    @behind = @joining = nil
    attempt(other) { other.record = leg.record } || leave(other)
    @map.unmark(@map.marked) unless @behind
    @recent.clear
    say "#{leg.name} has everything"
  end
end

run Mirror
