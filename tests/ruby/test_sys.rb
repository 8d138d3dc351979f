# frozen_string_literal: true

require_relative "test_helper"

class TestSys < Minitest::Test
  Stat = Struct.new(:rdev_major, :rdev_minor) do
    def blockdev? = true
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
