# frozen_string_literal: true

require_relative "examples_helper"
require "minitest/mock"
Examples.stack("mirror")

# examples/mirror.rb, in regions of 4 KiB. It looks for a leg that is behind when it is told to.
class TestExamplesMirror < Minitest::Test
  include Exercise

  REGION = 4096
  SECTOR = 512
  Mirror.send(:remove_const, :REGION)
  Mirror.const_set(:REGION, REGION)

  class Disk < Mirror
    attr_reader :current, :behind

    public :catch_up

    def watch(_interval) = nil
    def say(text) = (@said ||= []) << text && nil
    def said = @said.to_a.join("\n")
    def marked = @map.marked
  end

  # A file that can fail.
  class Leg < UnsureFile
    # Of :read, :write and :sync.
    attr_accessor :fails

    def initialize(file)
      super
      @fails = []
      @bad = []
    end

    # A place that can't be read before it is written again.
    def spoil(position) = @bad << position

    def pread(length, offset)
      raise Errno::EIO, "broken" if @fails.include?(:read) || @bad.any? { |at| (offset...offset + length).cover?(at) }

      super
    end

    def pwrite(data, offset)
      raise Errno::EIO, "broken" if @fails.include?(:write)

      @bad.reject! { |at| (offset...offset + data.bytesize).cover?(at) }
      super
    end

    def fdatasync = @fails.include?(:sync) ? raise(Errno::EIO, "broken") : super

    def content = @file.pread(size, 0)
  end

  SECTORS = 16 * REGION / SECTOR
  PAGE = 4096

  def setup
    @directory = Dir.mktmpdir
    @files = { "a" => SECTORS * SECTOR + PAGE, "b" => SECTORS * SECTOR + PAGE, "mirror.map" => 0 }.to_h do |name, size|
      File.write(path(name), "")
      File.truncate(path(name), size)
      [path(name), Leg.new(File.open(path(name), "r+b"))]
    end
    @missing = []
  end

  def teardown
    UnsureFile.fatal = nil
    FileUtils.rm_rf(@directory)
  end

  def path(name) = File.join(@directory, name)
  def leg(name) = @files.fetch(path(name))
  def legs = [leg("a"), leg("b")]

  def on_files(&block)
    open = ->(path, *) { @missing.include?(File.basename(path)) ? raise(Errno::ENOENT, path) : @files.fetch(path) }
    File.stub(:open, open, &block)
  end

  def disk = on_files { Disk.new(first: path("a"), second: path("b"), state: @directory) }
  def catch_up(mirror) = on_files { mirror.catch_up }

  # Both have everything.
  def whole
    mirror = disk
    catch_up(mirror) if mirror.behind
    assert_standing mirror, current: %w[a b]
    mirror
  end

  def assert_standing(mirror, current:, behind: nil)
    assert_equal [current, behind], [mirror.current.map { |leg| File.basename(leg.name) }, mirror.behind && File.basename(mirror.behind.name)], mirror.said
  end

  def assert_equal_legs
    a, b = legs.map { |leg| leg.content.byteslice(0, SECTORS * SECTOR) }
    assert a == b, "the legs differ"
  end

  def block(text) = text.b.ljust(PAGE, ".")

  # It takes the legs together, or refuses to.
  def refused(pattern)
    error = assert_raises(UBLK::Error) { disk }
    assert_match pattern, error.message
  end

  def test_a_new_mirror_is_a_copy_of_the_first_leg
    leg("a").pwrite(block("first"), 0)
    leg("b").pwrite(block("second"), 0)
    mirror = disk
    assert_standing mirror, current: %w[a], behind: "b"
    assert_equal [block("first"), "\0" * REGION], [mirror.read(0, REGION), mirror.read(REGION, REGION)]
    catch_up(mirror)
    assert_standing mirror, current: %w[a b]
    assert_empty mirror.marked
    assert_equal_legs
  end

  def test_a_new_mirror_needs_both_legs
    @missing = %w[b]
    assert_raises(Errno::ENOENT) { disk }
    @missing = []
    assert_standing disk, current: %w[a], behind: "b"
  end

  def test_it_is_a_disk
    mirror = whole
    exercise(mirror, "\0".b * mirror.size, operations: %i[read write])
    assert_equal_legs
  end

  def test_a_leg_with_data_where_the_record_goes_is_refused
    leg("b").pwrite("data", SECTORS * SECTOR + PAGE - 4)
    refused(/last 4096 bytes of .*b hold data/)
    assert_equal 0, leg("a").content.count("^\0")
  end

  # Both legs are read, and neither hides what is wrong with the other.
  def test_a_leg_that_can_not_be_read_is_repaired
    mirror = whole
    { "a" => [0, 2, 4, 6], "b" => [1, 3, 5, 7] }.each do |name, its|
      8.times do |region|
        mirror.write(region * REGION, block("data #{region}"))
        leg(name).spoil(region * REGION + 100)
      end
      8.times { |region| assert_equal block("data #{region}"), mirror.read(region * REGION, REGION) }
      assert_standing mirror, current: %w[a b]
      assert_equal(its, (0...8).select { |region| mended?(leg(name), region) })
    end
  end

  def mended?(leg, region)
    leg.pread(REGION, region * REGION)
  rescue Errno::EIO
    false
  end

  def test_a_leg_that_can_not_be_repaired_is_left
    mirror = whole
    mirror.write(0, block("data"))
    leg("a").fails = %i[read write]
    assert_equal block("data"), mirror.read(0, PAGE)
    assert_standing mirror, current: %w[b], behind: "a"
    assert_equal block("data"), mirror.read(0, PAGE)
  end

  # The places that it lost are none that read as zeroes.
  def test_a_leg_that_was_cut_off
    mirror = whole
    4.times { |region| mirror.write(region * REGION, block("data #{region}")) }
    leg("b").truncate(REGION)
    4.times { |region| assert_equal block("data #{region}"), mirror.read(region * REGION, REGION) }
    assert_standing mirror, current: %w[a], behind: "b"
    catch_up(mirror)
    assert_includes mirror.said, "behind: the last 4096 bytes"
    assert_standing disk, current: %w[a], behind: "b"
    leg("b").truncate(SECTORS * SECTOR + PAGE)
    catch_up(mirror)
    assert_standing mirror, current: %w[a b]
    assert_equal_legs
  end

  def test_a_leg_that_fails_is_left_and_given_what_it_lacks
    %i[write sync].each do |what|
      mirror = whole
      mirror.write(0, block("old"))
      mirror.flush
      leg("a").fails = [what]
      mirror.write(0, block("new"))
      mirror.flush
      assert_standing mirror, current: %w[b], behind: "a"
      assert_equal block("new"), mirror.read(0, PAGE)
      mirror.write(5 * REGION, block("later"))
      catch_up(mirror)
      assert_standing mirror, current: %w[b], behind: "a"
      leg("a").fails = []
      catch_up(mirror)
      assert_standing mirror, current: %w[a b]
      assert_equal_legs
      assert_includes mirror.said, "lacks 2 MiB"
    end
  end

  def test_when_both_fail_the_client_hears_of_it
    mirror = whole
    mirror.write(0, block("data"))
    legs.each { |leg| leg.fails = %i[read write sync] }
    assert_raises(Errno::EIO) { mirror.read(0, PAGE) }
    assert_raises(Errno::EIO) { mirror.write(0, block("lost")) }
    assert_raises(Errno::EIO) { mirror.flush }
    legs.each { |leg| leg.fails = [] }
    assert_equal mirror.read(0, PAGE), mirror.read(0, PAGE)
    catch_up(mirror)
    assert_standing mirror, current: %w[a b]
    assert_equal_legs
  end

  # The one that has everything fails while the other is behind: nothing old is read.
  def test_a_leg_that_is_behind_is_not_read
    mirror = whole
    mirror.write(0, block("old"))
    leg("b").fails = [:write]
    mirror.write(0, block("new"))
    leg("b").fails = []
    leg("a").fails = %i[read write]
    assert_raises(Errno::EIO) { mirror.read(0, PAGE) }
    assert_raises(Errno::EIO) { mirror.write(0, block("newer")) }
    assert_standing mirror, current: %w[a], behind: "b"
  end

  # Nor by the next worker, whichever leg it finds.
  def test_a_leg_that_is_behind_is_not_served_alone
    mirror = whole
    mirror.write(0, block("old"))
    leg("b").fails = [:write]
    mirror.write(0, block("new"))
    leg("b").fails = []

    @missing = %w[a]
    refused(/b may be older than .*a/)
    @missing = %w[b]
    assert_equal block("new"), disk.read(0, PAGE)
    @missing = []
    mirror = disk
    assert_standing mirror, current: %w[a], behind: "b"
    catch_up(mirror)
    assert_equal_legs
    @missing = %w[a]
    assert_equal block("new"), disk.read(0, PAGE)
  end

  def test_a_leg_that_was_away_lacks_what_was_written
    whole.write(0, block("old"))
    @missing = %w[a]
    mirror = disk
    mirror.write(3 * REGION, block("new"))
    mirror = disk
    mirror.write(4 * REGION, block("new"))
    catch_up(mirror)
    assert_standing mirror, current: %w[b], behind: "a"
    @missing = []
    catch_up(mirror)
    assert_standing mirror, current: %w[a b]
    assert_includes mirror.said, "lacks 3 MiB"
    assert_equal_legs
  end

  # Each with a map that knew nothing of the other.
  def test_legs_that_were_each_served_alone_are_not_joined
    whole
    map = leg("mirror.map").content
    @missing = %w[a]
    disk.write(0, block("one way"))
    leg("mirror.map").pwrite(map, 0)
    @missing = %w[b]
    disk.write(0, block("another"))
    @missing = []
    refused(/different ways.*truncate/)
  end

  # As if both had been made longer.
  def test_legs_that_lost_both_records_are_no_new_mirror
    whole
    legs.each { |leg| leg.pwrite("\0" * PAGE, SECTORS * SECTOR) }
    refused(/remove the map/)
  end

  def test_a_mirror_without_its_map_is_copied_whole
    mirror = whole
    leg("a").fails = [:write]
    mirror.write(0, block("new"))
    leg("a").fails = []
    @files[path("mirror.map")] = Leg.new(File.open(path("other"), "w+b"))
    mirror = disk
    assert_standing mirror, current: %w[b], behind: "a"
    assert_equal block("new"), mirror.read(0, PAGE)
    catch_up(mirror)
    assert_includes mirror.said, "lacks 16 MiB"
    assert_equal_legs
  end

  def test_a_new_leg_in_place_of_an_old_one
    whole.write(0, block("data"))
    leg("a").pwrite("\0" * (SECTORS * SECTOR + PAGE), 0)
    mirror = disk
    assert_standing mirror, current: %w[b], behind: "a"
    catch_up(mirror)
    assert_equal_legs
    assert_equal block("data"), leg("a").pread(PAGE, 0)
  end

  def test_a_leg_of_another_mirror_is_not_overwritten
    mirror = whole
    leg("b").pwrite(["UBLKMIRR", SECTORS * SECTOR, 7, 0, 7].pack("a8Q<4"), SECTORS * SECTOR)
    refused(/different ways.*truncate/)
    leg("a").fails = []
    leg("b").fails = [:write]
    mirror.write(0, block("new"))
    leg("b").fails = []
    catch_up(mirror)
    assert_standing mirror, current: %w[a], behind: "b"
    assert_includes mirror.said, "different way"
  end

  # Marks: one sync for the first write to a region, none for the next.
  def test_marks_go_when_a_region_is_quiet
    mirror = whole
    mirror.write(0, block("x"))
    mirror.write(REGION, block("x"))
    assert_equal [0, 1], mirror.marked
    mirror.flush
    mirror.write(0, block("y"))
    mirror.flush
    assert_equal [0], mirror.marked
    mirror.flush
    assert_empty mirror.marked
  end

  def test_only_marked_regions_are_copied_after_a_crash
    mirror = whole
    mirror.write(2 * REGION, block("data"))
    mirror = disk
    assert_standing mirror, current: %w[a], behind: "b"
    assert_equal [2], mirror.marked
    catch_up(mirror)
    assert_standing mirror, current: %w[a b]
  end

  def test_after_a_quiet_end_nothing_is_copied
    mirror = whole
    mirror.write(0, block("data"))
    2.times { mirror.flush }
    assert_standing disk, current: %w[a b]
  end

  # The other leg has to know before anything is answered, be it a read: else the next worker might answer otherwise.
  def test_what_is_not_on_record_is_not_answered
    mirror = whole
    mirror.write(0, block("old"))
    leg("a").fails = [:sync]
    leg("b").fails = [:write]
    assert_raises(Errno::EIO) { mirror.write(0, block("new")) }
    assert_raises(Errno::EIO) { mirror.read(0, PAGE) }
    leg("a").fails = []
    assert_equal block("new"), mirror.read(0, PAGE)
    assert_standing mirror, current: %w[a], behind: "b"
    @missing = %w[a]
    refused(/b may be older/)
  end

  def test_threads
    mirror = whole
    writers = Array.new(3) do |n|
      Thread.new { 300.times { |i| mirror.write((i * 3 + n) % SECTORS * SECTOR, (i % 251 + n).chr * SECTOR) } && mirror.flush }
    end
    6.times do |i|
      legs[i % 2].fails = [:write]
      sleep 0.01
      legs[i % 2].fails = []
      3.times { catch_up(mirror) if mirror.behind }
      assert_standing mirror, current: %w[a b]
    end
    writers.each(&:join)
    assert_equal_legs
  end

  # Kills in the middle of anything, power failures, legs that fail, are away, and come back, in any order. What was
  # answered is there, after a power failure what was flushed; of the rest a sector is old or new, and stays what it was
  # once read. Nothing of it is so after a leg was served that was behind.
  def test_anything_that_can_happen
    random = Random.new(rand(1 << 16))
    @now = Array.new(SECTORS) { ["\0".b * SECTOR] }
    @durable = @now.map(&:dup)
    whole
    120.times do |n|
      mirror = served(random)
      compare(mirror, "round #{n}")
      live(mirror, random, "round #{n}")
      legs.each { |leg| leg.fails = [] }
      power_failure(random) if random.rand(3).zero?
    end
  end

  # Now and then without one of the legs, unless that one is needed.
  def served(random)
    @missing = [[], [], [], %w[a], %w[b]].sample(random: random)
    disk
  rescue UBLK::Error, Errno::ENOENT => e
    return repaired_by_hand(e) if @missing.empty?

    @missing = []
    retry
  end

  # One was killed as it took note that the other is behind, and then it was away: the one that is not in the map is given
  # up.
  def repaired_by_hand(error)
    raise error unless error.message.include?("different ways")

    known = leg("mirror.map").pread(24, 0).unpack("Q<3").last(2)
    given_up = legs.reject { |leg| known.include?(leg.pread(24, SECTORS * SECTOR).unpack("a8Q<2").last) }
    assert_equal 1, given_up.size, error.message
    given_up.first.pwrite("\0" * PAGE, SECTORS * SECTOR)
    disk
  end

  def live(mirror, random, what)
    UnsureFile.fatal = random.rand(200) if random.rand(2).zero?
    random.rand(10..60).times do
      case random.rand(10)
      when 0 then fail_somewhere(random)
      when 1 then catch_up(mirror) if mirror.behind
      when 2 then flush(mirror)
      when 3..5 then compare(mirror, what, random.rand(SECTORS), 8)
      else write(mirror, random)
      end
      assert_equal_legs if mirror.current.size == 2 && legs.all? { |leg| leg.fails.empty? }
    end
  rescue UnsureFile::Killed
    nil
  ensure
    UnsureFile.fatal = nil
  end

  def fail_somewhere(random)
    @missing = [] if random.rand(2).zero?
    legs.sample(random: random).fails = [[], [], [:read], [:write], [:sync], %i[read write sync]].sample(random: random)
  end

  def flush(mirror)
    mirror.flush
    @durable = @now.map(&:dup)
  rescue Errno::EIO
    nil
  end

  # Without an answer it may be done or not, sector by sector.
  def write(mirror, random)
    at = random.rand(SECTORS)
    count = [random.rand(1..16), SECTORS - at].min
    data = random.bytes(count * SECTOR)
    count.times { |i| [@now, @durable].each { |all| all[at + i] << data.byteslice(i * SECTOR, SECTOR) } }
    mirror.write(at * SECTOR, data.dup)
    count.times { |i| @now[at + i] = @now[at + i].last(1) }
  rescue Errno::EIO
    flunk "a write failed on sound legs" if legs.all? { |leg| leg.fails.empty? }
  end

  def compare(mirror, what, first = 0, count = SECTORS)
    (first...[first + count, SECTORS].min).each do |at|
      found = mirror.read(at * SECTOR, SECTOR)
      unless @now[at].include?(found)
        flunk "#{what}: sector #{at} is #{found[0, 8].inspect}, not one of #{@now[at].map { |version| version[0, 8] }}\n#{mirror.said}"
      end
      @now[at] = [found]
    end
  rescue Errno::EIO
    flunk "a read failed on sound legs\n#{mirror.said}" if legs.all? { |leg| leg.fails.empty? }
  end

  def power_failure(random)
    @files.transform_values! do |file|
      left = path("left")
      file.leave(left, random)
      Leg.new(File.open(left, "r+b").tap { File.unlink(left) })
    end
    @now = @durable
    @durable = @now.map(&:dup)
  end
end
