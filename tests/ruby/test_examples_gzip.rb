# frozen_string_literal: true

require_relative "test_helper"
require "tempfile"
require "zlib"
load File.join(ROOT, "examples/gzip_disk.rb")

class TestGzipDisk < Minitest::Test
  # Random, repeated and empty parts.
  def image(size, seed = 5)
    random = Random.new(seed)
    bytes = String.new(capacity: size)
    while bytes.bytesize < size
      length = random.rand(1..300_000)
      bytes << [random.bytes(length), random.bytes(100) * (length / 100), "\0".b * length].sample(random: random)
    end
    bytes.byteslice(0, size)
  end

  def with_disk(packed)
    Tempfile.create("disk.img.gz", binmode: true) do |file|
      file.write(packed)
      file.flush
      yield GzipDisk.new(path: file.path), file
    end
  end

  def assert_same(bytes, disk, offset, length)
    assert bytes.byteslice(offset, length) == disk.read(offset, length), "#{length} bytes at #{offset} differ"
  end

  def test_reads
    bytes = image(5 << 20)
    with_disk(Zlib.gzip(bytes)) do |disk|
      assert_equal bytes.bytesize, disk.size
      assert disk.read_only?
      assert_same bytes, disk, bytes.bytesize - 512, 512
      assert_same bytes, disk, 0, 512
      assert_same bytes, disk, 0, bytes.bytesize
      assert_equal Encoding::BINARY, disk.read(0, 512).encoding
      random = Random.new(rand(1 << 16))
      100.times do
        offset = random.rand(bytes.bytesize / 512 - 64) * 512
        assert_same bytes, disk, offset, random.rand(1..64) * 512
      end
    end
  end

  def test_any_level_and_a_header_with_a_name
    bytes = image(3 << 20)
    packed = StringIO.new("".b)
    Zlib::GzipWriter.wrap(packed, 1) { |writer| (writer.orig_name = "disk.img") && writer.write(bytes) }
    [packed.string, Zlib.gzip(bytes, level: 0), Zlib.gzip(bytes, level: 9)].each do |gz|
      with_disk(gz) { |disk| (0...bytes.bytesize).step(1 << 19) { |at| assert_same bytes, disk, at, 65_536 } }
    end
  end

  def test_members
    parts = [image(1_000_000, 1), "", image(3_000_000, 2), image(194_304, 3)]
    bytes = parts.join
    with_disk(parts.map { |part| Zlib.gzip(part) }.join) do |disk|
      assert_equal bytes.bytesize, disk.size
      assert_same bytes, disk, 999_936, 512
      assert_same bytes, disk, 0, bytes.bytesize
      assert_same bytes, disk, bytes.bytesize - 512, 512
    end
  end

  # Only what comes behind the last point is inflated to get at a block, and nothing at all twice in a sequence.
  def test_a_read_is_no_walk_from_the_start
    with_disk(Zlib.gzip(image(16 << 20))) do |disk|
      made = 0
      counting = Module.new { define_method(:inflate) { |*given| super(*given).tap { |count| made += count } } }
      GzipDisk::Inflater.prepend(counting)
      disk.read(13 << 20, 4096)
      assert_equal 4096, made
      disk.read((14 << 20) - 8192, 4096)
      assert_equal 1 << 20, made + 4096

      made = 0
      (2 << 20...4 << 20).step(131_072) { |at| disk.read(at, 131_072) }
      assert_equal 2 << 20, made
    ensure
      counting.send(:remove_method, :inflate)
    end
  end

  # 256 points have to do, with all that they take.
  def test_points_and_memory_are_bounded
    zeroes = Zlib.gzip("\0".b * (1 << 25), level: 1)
    before = rss
    with_disk(zeroes * 9) do |disk|
      assert_equal 9 << 25, disk.size
      assert_operator points(disk).size, :<=, 256
      assert_operator points(disk).size, :>, 128
      50.times { |i| assert_equal "\0".b * 4096, disk.read((i * 37 % 288) << 20, 4096) }
      assert_equal 4, disk.instance_variable_get(:@idle).size
      assert_operator rss - before, :<, 64 << 10, "KiB"
    end
  end

  def points(disk) = disk.instance_variable_get(:@points)
  def rss = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i

  def test_queues
    bytes = image(6 << 20)
    with_disk(Zlib.gzip(bytes)) do |disk|
      Array.new(4) do |t|
        Thread.new do
          random = Random.new(t)
          30.times { assert_same bytes, disk, random.rand(bytes.bytesize / 512 - 128) * 512, 65_536 }
        end
      end.each(&:join)
    end
  end

  def test_a_copy_stays_behind
    bytes = image(2 << 20)
    Tempfile.create do |file|
      file.binmode
      file.write(Zlib.gzip(bytes))
      file.flush
      inflater = GzipDisk::Inflater.new(file)
      inflater.advance(700_000)
      copy = inflater.dup
      inflater.advance(1 << 20)
      inflater.close
      copy.advance(4096, data = "".b)
      assert_equal bytes.byteslice(700_000, 4096), data
    end
  end

  def assert_damaged(packed, message)
    error = assert_raises(GzipDisk::Damaged) { with_disk(packed) { flunk "it was taken" } }
    assert_match %r{/disk\.img\.gz.* #{message}}, error.message
  end

  def test_what_is_damaged_is_found_when_the_disk_is_made
    packed = Zlib.gzip(image(1 << 20))
    assert_damaged "", "ends in the middle"
    assert_damaged "no gzip at all", "incorrect header check near byte 2"
    assert_damaged packed.byteslice(0, packed.bytesize / 2), "ends in the middle"
    assert_damaged packed.byteslice(0, packed.bytesize - 1), "ends in the middle"
    assert_damaged "#{packed}rubbish", "incorrect header check"
    assert_damaged packed.dup.tap { |bad| bad.setbyte(-6, bad.getbyte(-6) ^ 1) }, "incorrect data check"
    assert_damaged packed.dup.tap { |bad| bad.setbyte(-1, bad.getbyte(-1) ^ 1) }, "incorrect length check"
    error = assert_raises(ArgumentError) { with_disk(Zlib.gzip("x" * 1000)) { flunk "it was taken" } }
    assert_includes error.message, "multiple of 512"
  end

  def test_a_file_that_changes
    packed = Zlib.gzip(image(1 << 20))
    with_disk(packed) do |disk, file|
      file.pwrite("\0", 100)
      assert_includes assert_raises(Errno::EIO) { disk.read(0, 512) }.message, "has changed"
    end
    with_disk(packed) do |disk, file|
      file.truncate(packed.bytesize / 2)
      assert_raises(Errno::EIO) { disk.read(0, 512) }
    end
  end
end
