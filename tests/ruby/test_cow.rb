# frozen_string_literal: true

require_relative "test_helper"

class TestCow < Minitest::Test
  include Exercise
  Cow = UBLK::Layers::Cow

  # A file that forgets: what was not synced is kept or lost page by page when the power fails.
  class Forgetful
    PAGE = 512

    attr_reader :calls, :now

    def initialize
      @now = String.new
      @safe = String.new
      @touched = {}
      @calls = []
    end

    def flock(_how) = 0
    def close = nil
    def closed? = true
    def size = @now.bytesize
    def seek(_at, _whence) = @now.count("\0") == @now.bytesize ? raise(Errno::ENXIO) : 0
    def pread(length, at) = @now.byteslice(at, length)

    def truncate(size)
      @now << "\0".b * (size - @now.bytesize)
      @safe << "\0".b * (size - @safe.bytesize)
    end

    def pwrite(data, at)
      @calls << [:pwrite, at, data.bytesize]
      @now[at, data.bytesize] = data
      (at / PAGE..(at + data.bytesize - 1) / PAGE).each { |page| @touched[page] = true }
      data.bytesize
    end

    def fdatasync
      @calls << [:fdatasync]
      @touched.each_key { |page| @safe[page * PAGE, PAGE] = @now.byteslice(page * PAGE, PAGE) }
      @touched = {}
      0
    end
    alias fsync fdatasync

    def lose_power(random)
      @touched.each_key { |page| @safe[page * PAGE, PAGE] = @now.byteslice(page * PAGE, PAGE) if random.rand < 0.5 }
      @touched = {}
      @now = @safe.dup
    end
  end

  class FakeOverlay < Cow::Overlay
    class << self
      attr_accessor :file, :boot
    end

    def initialize(path, size, block) = super(path, size, block, boot: FakeOverlay.boot)
    def open_file = FakeOverlay.file
  end

  class FakeCow < Cow
    def open_overlay(path) = FakeOverlay.new(path, @size, @block)
  end

  def base = @base ||= HoleyDisk.new(size: SIZE).tap { |disk| disk.write(0, Random.new(7).bytes(SIZE)) }

  def fake(boot: "one", file: Forgetful.new)
    FakeOverlay.file = file
    FakeOverlay.boot = boot
    FakeCow.new(base, overlay: "/overlay")
  end

  # What the worker after a crash of this one sees: the same file, the same boot.
  def after_crash = FakeCow.new(base, overlay: "/overlay")

  # In place of the process that had it before.
  def cow(path, below: base, **options)
    @cow&.instance_variable_get(:@overlay)&.instance_variable_get(:@file)&.close
    @cow = Cow.new(below, overlay: path, **options)
  end

  def in_directory
    Dir.mktmpdir { |directory| yield File.join(directory, "overlay") }
  end

  def test_against_a_shadow_and_over_restarts
    [512, 4096, 65_536].each do |block|
      in_directory do |path|
        before = base.data.dup
        shadow = before.dup
        3.times { exercise(cow(path, block: block), shadow, steps: 150) }
        assert_same_bytes before, base.data
        assert_disk shadow, cow(path, block: block)
      end
    end
  end

  def test_partial_blocks_are_copied_up
    in_directory do |path|
      disk = cow(path)
      disk.write(4096 + 512, "x" * 512)
      expected = base.data.byteslice(4096, 4096).tap { |block| block[512, 512] = "x" * 512 }
      assert_same_bytes expected, disk.read(4096, 4096)
      disk.write(8192 - 512, "y" * 1024)
      assert_same_bytes base.data.byteslice(8192 + 512, 3584), disk.read(8192 + 512, 3584)
    end
  end

  def test_a_discarded_range_never_shows_what_is_below
    in_directory do |path|
      disk = cow(path)
      disk.discard(512, 65_536)
      assert_same_bytes base.data.byteslice(0, 512), disk.read(0, 512)
      assert_same_bytes "\0" * 65_536, cow(path).read(512, 65_536)
    end
  end

  def test_large_ranges_of_bits
    bits = Cow::Bits.new("\0".b * (1 << 16))
    at, bytes = bits.marked(3, 400_001)
    bits.replace(at, bytes)
    assert_equal [false, true, true, false], [2, 3, 400_001, 400_002].map { |number| bits.set?(number) }
    assert_nil bits.marked(3, 400_001).last
    runs = []
    bits.each_run(0, 400_010) { |*run| runs << run }
    assert_equal [[false, 0, 3], [true, 3, 399_999], [false, 400_002, 9]], runs
  end

  # Data first, then the mark; and a write into a block that is marked marks nothing.
  def test_the_mark_comes_after_the_data
    disk = fake
    file = FakeOverlay.file
    file.calls.clear
    disk.write(0, "x" * 4096)
    assert_equal [[:pwrite, 12_288, 4096], [:pwrite, 8192, 1]], file.calls
    file.calls.clear
    disk.write(512, "y" * 512)
    assert_equal [[:pwrite, 12_288 + 512, 512]], file.calls
    file.calls.clear
    disk.flush
    assert_equal [[:fdatasync], [:pwrite, 4096, 4096], [:fdatasync]], file.calls
    file.calls.clear
    disk.flush
    assert_equal [[:fdatasync]], file.calls
  end

  def test_without_a_boot_id_each_mark_waits_for_its_data
    disk = fake(boot: nil)
    file = FakeOverlay.file
    file.calls.clear
    disk.write(0, "x" * 4096)
    assert_equal [[:pwrite, 12_288, 4096], [:fdatasync], [:pwrite, 8192, 1], [:pwrite, 4096, 1]], file.calls
    assert_same_bytes "x" * 4096, after_crash.read(0, 4096)
  end

  # At any call: all that was answered is there, and what was not is old or new.
  def test_the_worker_dies_anywhere
    [0, 1].each do |survives|
      disk = fake
      file = FakeOverlay.file
      disk.write(0, "a" * 4096)
      calls = 0
      file.define_singleton_method(:pwrite) do |data, at|
        raise Interrupt if (calls += 1) > survives

        super(data, at)
      end
      assert_raises(Interrupt) { disk.write(4096, "b" * 4096) }
      file.singleton_class.remove_method(:pwrite)
      disk = after_crash
      assert_same_bytes "a" * 4096, disk.read(0, 4096)
      assert_same_bytes base.data.byteslice(4096, 4096), disk.read(4096, 4096)
      disk.write(4096 + 512, "c" * 512)
      assert_same_bytes base.data.byteslice(4096, 512) + "c" * 512, disk.read(4096, 1024)
    end
  end

  # What was flushed is there, and every sector has a value that was written since, or the flushed one.
  def test_the_power_fails_anywhere
    60.times do |round|
      random = Random.new(rand(1 << 16))
      disk = fake(boot: "boot 0")
      versions = Array.new(64) { |sector| [base.data.byteslice(sector * 512, 512)] }
      3.times do |boots|
        random.rand(1..40).times { change(disk, versions, random) }
        FakeOverlay.file.lose_power(random)
        FakeOverlay.boot = "boot #{boots + 1}"
        disk = after_crash
        versions.each_with_index do |allowed, sector|
          found = disk.read(sector * 512, 512)
          assert_includes allowed.map(&:hash), found.hash, "round #{round}, sector #{sector}"
          allowed.replace([found])
        end
      end
    end
  end

  def change(disk, versions, random)
    first = random.rand(64)
    count = random.rand(1..[12, 64 - first].min)
    case random.rand(6)
    when 0
      disk.flush
      versions.each { |allowed| allowed.replace([allowed.last]) }
    when 1
      disk.write_zeroes(first * 512, count * 512)
      count.times { |i| versions[first + i] << "\0".b * 512 }
    else
      data = random.bytes(count * 512)
      disk.write(first * 512, data)
      count.times { |i| versions[first + i] << data.byteslice(i * 512, 512) }
    end
  end

  def test_a_flush_that_fails_is_made_up_for
    disk = fake
    disk.write(0, "x" * 4096)
    file = FakeOverlay.file
    file.define_singleton_method(:fdatasync) { raise Errno::EIO }
    assert_raises(Errno::EIO) { disk.flush }
    file.singleton_class.remove_method(:fdatasync)
    disk.flush
    file.lose_power(Random.new(1))
    FakeOverlay.boot = "two"
    assert_same_bytes "x" * 4096, after_crash.read(0, 4096)
  end

  # In the midst of one a block is written, and another flush is asked for, which is answered or waits for the first.
  def test_two_flushes_at_once
    disk = fake
    file = FakeOverlay.file
    disk.write(0, "x" * 4096)
    calls = 0
    second = nil
    file.define_singleton_method(:fdatasync) do
      if (calls += 1) == 1
        disk.write(32_768, "y" * 4096)
        second = Thread.new { disk.flush }
        Thread.pass until second.stop?
      end
      super()
    end
    disk.flush
    second.join
    file.singleton_class.remove_method(:fdatasync)
    file.lose_power(Random.new(1))
    FakeOverlay.boot = "two"
    assert_same_bytes "x" * 4096, after_crash.read(0, 4096)
    assert_same_bytes "y" * 4096, after_crash.read(32_768, 4096)
  end

  # Where boots can't be told apart the first bitmap is all that the next worker has.
  def test_a_flush_without_a_boot_id_takes_no_mark_back
    disk = fake(boot: nil)
    file = FakeOverlay.file
    disk.write(0, "x" * 4096)
    calls = 0
    file.define_singleton_method(:fdatasync) do
      (calls += 1) == 1 && disk.write(32_768, "y" * 4096)
      raise Interrupt if calls == 3

      super()
    end
    begin
      disk.flush
    rescue Interrupt
      nil # it dies there, if it syncs once more
    end
    file.singleton_class.remove_method(:fdatasync)
    assert_same_bytes "y" * 4096, after_crash.read(32_768, 4096)
  end

  def test_a_file_of_another_disk
    in_directory do |path|
      cow(path)
      error = assert_raises(ArgumentError) { cow(path, below: PlainDisk.new(size: SIZE * 2)) }
      assert_includes error.message, "of #{SIZE} bytes"
      assert_raises(ArgumentError) { cow(path, block: 8192) }
      File.write(path, "something else" * 400)
      assert_includes assert_raises(ArgumentError) { cow(path) }.message, "has data and is no overlay; give a new path"
      assert_raises(ArgumentError) { Cow.new(base, overlay: "relative") }
      [256, 5000, 1 << 25].each { |block| assert_raises(ArgumentError) { Cow.new(base, overlay: "#{path}2", block: block) } }
    end
  end

  def test_an_overlay_of_two_disks
    in_directory do |path|
      disk = cow(path)
      disk.write(0, "x" * 512)
      assert_equal "#{path} is in use by another disk; stop it first",
                   assert_raises(UBLK::Error) { Cow.new(base, overlay: path) }.message
      assert_same_bytes "x" * 512, disk.read(0, 512)
      assert_same_bytes "x" * 512, cow(path).read(0, 512)
    end
  end

  # btrfs, ZFS and md leave the first blocks of a disk alone.
  def test_a_file_that_only_begins_with_zeroes
    in_directory do |path|
      [65_536, SIZE - 512, 4 * SIZE].each do |at|
        File.write(path, "data", at)
        before = File.binread(path)
        error = assert_raises(ArgumentError) { cow(path) }
        assert_equal "#{path} has data and is no overlay; give a new path", error.message
        assert_same_bytes before, File.binread(path)
      end
    end
  end

  # Such as /dev/zero's.
  def test_zeroes_are_data_too
    in_directory do |path|
      File.write(path, "\0" * 65_536)
      assert_raises(ArgumentError) { cow(path) }
      assert_equal 65_536, File.size(path)
    end
  end

  def test_it_died_while_it_made_the_file
    in_directory do |path|
      File.write(path, "")
      File.truncate(path, 100_000)
      disk = cow(path)
      disk.write(0, "x" * 512)
      assert_same_bytes base.data.byteslice(SIZE - 512, 512), disk.read(SIZE - 512, 512)
    end
  end

  def test_boot_id
    assert_match(/\A\S+\z/, UBLK::Sys.boot_id)
  end
end
