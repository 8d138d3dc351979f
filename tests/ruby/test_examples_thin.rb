# frozen_string_literal: true

require_relative "examples_helper"
require "minitest/mock"
Examples.stack("thin")

# examples/thin.rb, in chunks of 4 KiB.
class TestExamplesThin < Minitest::Test
  include Exercise

  CHUNK = 4096
  SECTOR = 512
  Thin.send(:remove_const, :CHUNK)
  Thin.const_set(:CHUNK, CHUNK)

  def setup
    @directory = Dir.mktmpdir
    @path = File.join(@directory, "thin")
    File.write(@path, "")
  end

  def teardown = FileUtils.rm_rf(@directory)

  # In place of the process that had it before.
  def disk(path = @path, size: SIZE)
    @open&.flock(File::LOCK_UN)
    Thin.new(path: path, size: size).tap { |thin| @open = thin.instance_variable_get(:@file) }
  end

  # Chunks for which the file has room.
  def places(thin) = thin.instance_variable_get(:@count)

  def test_it_is_a_disk
    exercise(disk, "\0".b * SIZE)
  end

  def test_its_last_chunk_may_be_a_part_of_one
    size = SIZE + 512
    thin = disk(size: size)
    exercise(thin, "\0".b * size)
    thin.write(SIZE, "x" * 512)
    thin.discard(SIZE, 512)
    assert_equal "\0" * 512, thin.read(SIZE, 512)
  end

  def test_it_has_what_was_written
    thin = disk(size: 1 << 40)
    [0, 1 << 39, (1 << 40) - 512].each { |at| assert_equal 512, thin.write(at, "x".b * 512) }
    thin = disk(size: nil)
    assert_equal 1 << 40, thin.size
    assert_equal ["x" * 512, "\0" * 512], [thin.read(1 << 39, 512), thin.read((1 << 39) + CHUNK, 512)]
    assert_equal 3, places(thin)
    assert_operator File.stat(@path).blocks * 512, :<, 1 << 20
  end

  def test_places_are_used_again_after_a_flush
    thin = disk
    thin.write(0, "x" * CHUNK * 8)
    thin.discard(0, CHUNK * 8)
    thin.write(CHUNK * 8, "x" * CHUNK)
    assert_equal 9, places(thin)
    thin.flush
    thin.write(CHUNK * 16, "x" * CHUNK * 8)
    assert_equal 9, places(thin)
    thin.write(CHUNK * 32, "x" * CHUNK)
    assert_equal 10, places(thin)
  end

  def test_a_flush_that_fails_frees_nothing
    thin = disk
    thin.write(0, "x" * CHUNK)
    thin.discard(0, CHUNK)
    @open.define_singleton_method(:fdatasync) { raise Errno::EIO }
    assert_raises(Errno::EIO) { thin.flush }
    @open.singleton_class.remove_method(:fdatasync)
    thin.flush
    thin.write(0, "x" * CHUNK)
    assert_equal 2, places(thin)
    assert_equal [2, "x" * CHUNK], disk.then { |again| [places(again), again.read(0, CHUNK)] }
  end

  def test_what_it_refuses
    { "an empty file without a size" => nil, "more chunks than entries" => 1 << 60, "half a sector" => 1000 }.each do |what, size|
      path = File.join(@directory, what)
      File.write(path, "")
      assert_raises(ArgumentError, what) { disk(path, size: size) }
      assert_equal 0, File.size(path), what
    end
    thin = disk
    assert_match(/in use/, assert_raises(UBLK::Error) { Thin.new(path: @path) }.message)
    @open.flock(File::LOCK_UN)
    assert_match(/disk of #{SIZE} bytes/, assert_raises(ArgumentError) { Thin.new(path: @path, size: thin.size * 2) }.message)
    other = File.join(@directory, "other")
    File.write(other, "something else")
    assert_match(/no thin disk/, assert_raises(ArgumentError) { Thin.new(path: other) }.message)
  end

  def test_a_damaged_table_is_found
    thin = disk
    thin.write(0, "x" * CHUNK * 2)
    File.binwrite(@path, [1, 1].pack("L<2"), Thin::PAGE)
    assert_match(/damaged/, assert_raises(UBLK::Error) { disk }.message)
  end

  # A process that is killed in the middle of anything leaves all that it answered. A power failure leaves what was
  # flushed; of the rest each sector is old or new.
  def test_crashes
    random = Random.new(rand(1 << 16))
    may_be = Array.new(24 * CHUNK / SECTOR) { ["\0".b * SECTOR] }
    file = UnsureFile.new(File.open(@path, "r+b"))
    200.times do |n|
      killed = random.rand(2).zero?
      unanswered = live(file, random, may_be, killed ? random.rand(1..80) : nil)
      if killed
        may_be.each_with_index { |versions, at| may_be[at] = versions.last(unanswered.include?(at) ? 2 : 1) }
      else
        file = after_power_failure(file, random)
      end
      compare(serve(file, may_be.size * SECTOR), may_be, "#{killed ? "kill" : "power failure"} #{n}")
    end
  end

  # Some requests. The sectors that the last one was about, if it was not answered.
  def live(file, random, may_be, fatal)
    UnsureFile.fatal = fatal
    last = []
    thin = serve(file, may_be.size * SECTOR)
    random.rand(10..40).times { request(thin, random, may_be) { |sectors| last = sectors } }
    []
  rescue UnsureFile::Killed
    last
  ensure
    UnsureFile.fatal = nil
  end

  def serve(file, size) = File.stub(:open, file) { Thin.new(path: @path, size: size) }

  def after_power_failure(file, random)
    path = File.join(@directory, "left")
    file.leave(path, random)
    File.rename(path, @path)
    UnsureFile.new(File.open(@path, "r+b"))
  end

  # What is found is what it is from then on.
  def compare(thin, may_be, when_)
    may_be.each_with_index do |versions, at|
      found = thin.read(at * SECTOR, SECTOR)
      unless versions.include?(found)
        flunk "#{when_}: sector #{at} is #{found[0, 8].inspect}, not one of #{versions.map { |version| version[0, 8] }}"
      end
      may_be[at] = [found]
    end
  end

  # Yields which sectors it changes, before it does.
  def request(thin, random, may_be)
    at = random.rand(may_be.size)
    count = [random.rand(1..24), may_be.size - at].min
    data = random.rand(2).zero? ? random.bytes(count * SECTOR) : "\0".b * count * SECTOR
    if random.rand(10).zero?
      yield []
      thin.flush
      return may_be.map! { |versions| versions.last(1) }
    end

    count.times { |i| may_be[at + i] << data.byteslice(i * SECTOR, SECTOR) }
    yield at...at + count
    data.count("\0") == data.bytesize ? thin.discard(at * SECTOR, data.bytesize) : thin.write(at * SECTOR, data)
  end
end
