# frozen_string_literal: true

require "tempfile"

require_relative "test_helper"

# UBLK::Sys: the one of C where the extension is in the load path, the one of Ruby where it is not.
class TestSys < Minitest::Test
  Stat = Struct.new(:rdev_major, :rdev_minor) do
    def blockdev? = true
  end

  # In the page cache, and on a tmpfs: what is long goes another way than what is short.
  def each_file
    ["/dev/shm", Dir.tmpdir].each do |directory|
      Tempfile.create("sys", directory, binmode: true) { |file| yield file }
    end
  end

  def test_pread_and_pwrite
    each_file do |file|
      [1, 4096, 65_536, 300_001].each do |length|
        data = Random.bytes(length)
        assert_equal length, UBLK::Sys.pwrite(file, data, 777)
        assert_equal data, UBLK::Sys.pread(file, length, 777)
        assert_equal data[1..], UBLK::Sys.pread(file, length, 778), "less at the end"
        assert_equal Encoding::BINARY, UBLK::Sys.pread(file, length, 0).encoding
      end
      assert_equal "", UBLK::Sys.pread(file, 4096, 1 << 40)
      assert_equal "", UBLK::Sys.pread(file, 0, 0)
      assert_equal 0, UBLK::Sys.pwrite(file, "", 0)
    end
  end

  def test_pwrite_leaves_the_string_alone
    each_file do |file|
      [4096, 1 << 20].each do |length|
        data = "x".b * length
        UBLK::Sys.pwrite(file, data, 0)
        data.setbyte(0, 1)
        assert_equal ["\1".b, "x".b], [data[0], UBLK::Sys.pread(file, 1, 0)]
        assert_equal 5, UBLK::Sys.pwrite(file, "\u00fc\u20ac", 0), "bytes, not characters"
      end
    end
  end

  def test_pread_and_pwrite_of_what_can_not_be
    each_file do |file|
      assert_raises(ArgumentError) { UBLK::Sys.pread(file, -1, 0) }
      UBLK::Sys.pwrite(file, "bytes", 0)
      assert_raises(Errno::EINVAL) { UBLK::Sys.pread(file, 1, -1) }
      assert_raises(Errno::EINVAL) { UBLK::Sys.pwrite(file, "x", -1) }
      assert_raises(TypeError, NoMethodError) { UBLK::Sys.pread(file, "1", 0) }
      File.open(file.path, "rb") { |reader| assert_raises(Errno::EBADF, IOError) { UBLK::Sys.pwrite(reader, "x", 0) } }
      file.close
      assert_raises(IOError) { UBLK::Sys.pread(file, 1, 0) }
    end
    IO.pipe { |reader, _| assert_raises(Errno::ESPIPE) { UBLK::Sys.pread(reader, 1, 0) } }
  end

  def test_opened_anew
    IO.pipe do |reader, _|
      assert_raises(Errno::ESPIPE) { UBLK::Sys.pread(reader, 1, 0) }
      reader.reopen(__FILE__)
      assert_equal "# frozen", UBLK::Sys.pread(reader, 8, 0)
    end
  end

  # The block devices of this host, as udev or devtmpfs has named them.
  def nodes
    Dir.children("/sys/block").map { |name| ["/dev/#{name}", name] }.select do |node, name|
      File.exist?(node) && File.stat(node).then do |stat|
        stat.blockdev? && File.read("/sys/block/#{name}/dev").strip == "#{stat.rdev_major}:#{stat.rdev_minor}"
      end
    end
  rescue Errno::ENOENT
    []
  end

  def test_block_size_of_what_this_host_has
    skip "this host shows no block devices" if nodes.empty?

    nodes.each do |node, name|
      expected = Integer(File.read("/sys/block/#{name}/queue/logical_block_size"), 10)
      assert_equal expected, UBLK::Sys.block_size(File.stat(node)), node
    end
  end

  def test_block_size_of_a_partition
    Dir.mktmpdir do |sysfs|
      disk = File.join(sysfs, "devices/pci/block/sda")
      FileUtils.mkdir_p([File.join(disk, "queue"), File.join(disk, "sda1"), File.join(sysfs, "dev/block")])
      File.write(File.join(disk, "queue/logical_block_size"), "4096\n")
      File.symlink(disk, File.join(sysfs, "dev/block/8:0"))
      File.symlink(File.join(disk, "sda1"), File.join(sysfs, "dev/block/8:1"))
      assert_equal [4096, 4096, nil], [0, 1, 2].map { |minor| UBLK::Sys.block_size(Stat.new(8, minor), sysfs: sysfs) }
    end
  end

  def test_block_size_of_what_has_none
    assert_nil UBLK::Sys.block_size(File.stat(__FILE__))
    assert_nil UBLK::Sys.block_size(File.stat("/dev/null"))
  end
end
