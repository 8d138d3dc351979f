# frozen_string_literal: true

require_relative "test_helper"
require "open3"
require "rbconfig"

# A hook script as a program of its own, up to where it needs a kernel.
class TestAutorun < Minitest::Test
  DISK = <<~RUBY
    class Disk < UBLK::Target
      option :size, :bytes, default: "1M", doc: "of the disk"
      option :path, :path
      def initialize(size:, path: nil) = super(size: size)
      def read(offset, length) = "\\0".b * length
      def read_only? = true
    end
    use Trace
  RUBY

  # In place of the kernel: prints what would be served.
  KERNEL = <<~RUBY
    require "ublk"
    Ready = Struct.new(:target, :settings) do
      def start = puts("\#{target.class} \#{target.size} \#{settings}")
      def path = "/dev/ublkb0"
      def run = puts("run")
    end
    module NoKernel
      def create(target, **settings) = Ready.new(target, settings)
      def recover(target, **settings) = Ready.new(target, settings)
    end
    UBLK::Device.singleton_class.prepend NoKernel
  RUBY

  def ruby(text, *words, before: [], kernel: false)
    Dir.mktmpdir do |directory|
      File.write(File.join(directory, "disk.rb"), text)
      File.write(File.join(directory, "kernel.rb"), KERNEL)
      before += ["-r", "./kernel"] if kernel
      out, err, status = Open3.capture3(RbConfig.ruby, "-w", "-I", File.join(ROOT, "hooks/lib"), *before, "disk.rb", *words, chdir: directory)
      [status.exitstatus, out, err]
    end
  end

  def program(*words, **options) = ruby("require \"ublk/autorun\"\n#{DISK}", *words, **options)

  def test_it_serves_the_stack_with_its_options
    assert_equal [0, "UBLK::Layers::Trace #{3 << 20} {}\n/dev/ublkb0\nrun\n", ""], program("size=3M", kernel: true)
    _, out, = program("--queues", "2", "--depth=7", "--recovery", kernel: true)
    assert_equal "UBLK::Layers::Trace #{1 << 20} #{{ queues: 2, depth: 7, recovery: true }}", out.lines.first.chomp
    assert_equal "UBLK::Layers::Trace #{1 << 20} #{{ id: 4 }}", program("--recover", "4", kernel: true)[1].lines.first.chomp
  end

  def test_the_script_need_not_know
    assert_equal program("size=3M", kernel: true), ruby(DISK, "size=3M", before: ["-r", "ublk/autorun"], kernel: true)
  end

  def test_help_lists_the_options
    status, out, = program("--help")
    assert_equal 0, status
    assert_includes out, "size (bytes, default 1048576, of the disk)"
  end

  def test_wrong_usage_is_status_2
    { "size=x" => "wants a number of bytes", "sise=3M" => 'no option "sise"', "size" => "key=value", "path=here" => "an absolute path",
      "--none" => "invalid option" }.each do |word, message|
      status, out, err = program(word, kernel: true)
      assert_equal [2, ""], [status, out], word
      assert_includes err, message
      assert_equal 1, err.lines.size, err
    end
  end

  def test_a_secret_comes_from_a_file
    text = "require \"ublk/autorun\"\n#{DISK.sub("  def read(", "  option :key, :secret\n  def read(")
                                          .sub("path: nil) = super(size: size)", "key: nil) = super(size: key.value == \"sword\" ? size : raise(UBLK::Error, key.value))")}"
    Dir.mktmpdir do |directory|
      key = File.join(directory, "key")
      File.write(key, "sword", perm: 0o600)
      assert_equal [0, ""], ruby(text, "key=#{key}", kernel: true).values_at(0, 2)
      File.write(key, "swordfish")
      assert_equal [1, "", "disk: [secret key]\n"], ruby(text, "key=#{key}", kernel: true)
      File.chmod(0o644, key)
      status, _, err = ruby(text, "key=#{key}", kernel: true)
      assert_equal [2, true], [status, err.include?("others can read")]
      status, _, err = ruby(text, "key=sword fish", kernel: true)
      assert_equal [2, false], [status, err.include?("sword fish")]
    end
  end

  def test_a_failure_is_status_1
    assert_equal [1, "", "disk: no\n"], ruby("require \"ublk/autorun\"\n#{DISK.sub("= super(size: size)", "= raise(UBLK::Error, 'no')")}", kernel: true)
    status, _, err = ruby("require \"ublk/autorun\"\n")
    assert_equal 1, status
    assert_includes err, "defines no subclass of UBLK::Target"
  end

  def test_a_script_that_fails_serves_nothing
    status, out, err = ruby("require \"ublk/autorun\"\n#{DISK}raise 'broken'", kernel: true)
    assert_equal [1, ""], [status, out]
    assert_includes err, "broken"
  end

  def test_required_by_another_program_it_does_nothing
    Dir.mktmpdir do |directory|
      File.write(File.join(directory, "disk.rb"), "require 'ublk/autorun'\n#{DISK.lines[..-2].join}")
      program = File.join(directory, "program.rb")
      File.write(program, "require_relative 'disk'\nputs Disk.new(size: 512).size")
      assert_equal ["512\n", ""], Open3.capture3(RbConfig.ruby, "-I", File.join(ROOT, "hooks/lib"), program).first(2)
    end
  end

  def test_in_a_worker_it_does_nothing
    Dir.mktmpdir do |directory|
      path = File.join(directory, "disk.rb")
      File.write(path, "require 'ublk/autorun'\n#{DISK}")
      facts = UBLK::Runtime.load(name: "disk", path: path, class_name: nil, device: "disk0", recovery: "default", read_only: false, arguments: [])
      assert_equal 1 << 20, facts[:size]
    end
  end
end
