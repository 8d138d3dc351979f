# frozen_string_literal: true

require_relative "test_helper"
require "open3"

# The hook's own code: found while it is loaded, and run again when the files are others, or gone. Each load is an
# interpreter of its own, started as the worker's is.
class TestCode < Minitest::Test
  RUBY = [RbConfig.ruby, "--disable=gems,did_you_mean,error_highlight", "-EUTF-8", "-I#{File.join(ROOT, "hooks/lib")}"].freeze

  # ARGV: the script, a file for what was loaded, a file with what is to be run instead of the disk's; or only the script.
  LOADER = <<~'RUBY'
    script, loaded, code = ARGV
    module UBLK
      module Code
        FOUND = []
        def self.loaded(*file) = FOUND << file
      end
    end
    require "ublk"
    require "ublk/script"
    at_exit { File.binwrite(loaded, Marshal.dump(UBLK::Code::FOUND)) if loaded && Process.pid == OWNER }
    OWNER = Process.pid
    UBLK::Code.prepare(code && Marshal.load(File.binread(code)), capture: !loaded.nil?)
    begin
      UBLK::Script.new(script).load
    rescue Exception => e
      puts "#{e.class}: #{e.message}", e.backtrace&.reject { |line| line.include?("/hooks/lib/") || line.start_with?("-e:") }
    end
  RUBY

  TARGET = "class Disk < UBLK::Target; end\n"

  def setup = @directory = Dir.mktmpdir
  def teardown = FileUtils.rm_rf([@directory, "#{@directory}.found"])
  def path(name) = File.join(@directory, name)

  def write(files)
    files.each do |name, text|
      FileUtils.mkdir_p(File.dirname(path(name)))
      File.binwrite(path(name), text)
    end
  end

  # What the script and its files print.
  def run_script(*arguments, script: path("disk.rb"), options: [])
    output, = Open3.capture2e({ "HOME" => @directory, "RUBYOPT" => nil }, *RUBY, *options, "-e", LOADER, "--", script, *arguments)
    output.gsub("<top (required)>", "<compiled>")
  end

  def found_file = "#{@directory}.found"

  def found = Marshal.load(File.binread(found_file))

  # Runs it from the disk, and the files that are said to have been loaded: {path => [real path, source]}
  def capture(**options)
    @first = run_script(found_file, **options)
    FileUtils.cp(found_file, path("kept"))
    found.to_h { |path, *file| [path, file] }
  end

  # Runs the code that was found.
  def replay(**options)
    run_script(found_file, path("kept"), **options)
  end

  def remove_files = Dir.glob(File.join(@directory, "**/*.rb")).each { |file| File.delete(file) }

  def assert_same_without_files(expected = @first)
    assert_equal expected, replay
    remove_files
    assert_equal expected, replay
  end

  def test_what_is_found
    write("disk.rb" => "require 'json'\nrequire_relative 'helper'\nload File.join(__dir__, 'loaded.rb')\n#{TARGET}",
          "helper.rb" => "require_relative 'lib/deep'\n", "lib/deep.rb" => "DEEP = 1\n", "loaded.rb" => "LOADED = 1\n")
    files = capture
    assert_equal "", @first
    assert_equal %w[disk.rb helper.rb lib/deep.rb loaded.rb].map { |name| path(name) }, files.keys
    files.each do |name, (real_path, source)|
      assert_equal File.realpath(name), real_path
      assert_equal File.binread(name), source.b
    end
  end

  def test_what_is_installed_is_not
    home = File.join(@directory, ".local/share/gem/ruby", RbConfig::CONFIG["ruby_version"])
    gem = { "gems/some-1/lib/some.rb" => "SOME = 1\n",
            "specifications/some-1.gemspec" => "Gem::Specification.new { |s| s.name = 'some'; s.version = '1'; " \
                                               "s.summary = s.author = 'a'; s.files = ['lib/some.rb'] }\n" }
    write(gem.transform_keys { |name| File.join(home, name).delete_prefix("#{@directory}/") })
    write("disk.rb" => "require 'some'\nputs SOME, Gem.loaded_specs.key?('some')\n#{TARGET}")
    assert_equal [path("disk.rb")], capture.keys
    assert_equal "1\ntrue\n", @first
  end

  def test_changed_files
    write("disk.rb" => "require_relative 'helper'\nputs \"script 1, \#{HELPER}\"\n#{TARGET}", "helper.rb" => "HELPER = 'helper 1'\n")
    capture
    write("disk.rb" => "puts 'script 2'", "helper.rb" => "HELPER = 'helper 2'\n")
    assert_equal "script 1, helper 1\n", replay
    assert_empty found # nothing new
  end

  def test_files_that_are_gone
    write("disk.rb" => <<~RUBY, "helper.rb" => "module Helper\n  def self.here = [__FILE__, __dir__, __LINE__]\nend\n",
      $LOAD_PATH.unshift(File.join(__dir__, "lib"))
      autoload :Late, File.join(__dir__, "late")
      p require_relative("helper"), require_relative("helper"), require(File.join(__dir__, "helper.rb"))
      p require("found"), require("found"), Found.here, Helper.here, Late.name
      p __FILE__, __dir__
      #{TARGET}
    RUBY
          "lib/found.rb" => "require_relative '../helper'\nrequire_relative 'circle'\nmodule Found\n  def self.here = __FILE__\nend\n",
          "lib/circle.rb" => "require 'found'\n", "late.rb" => "class Late; end\n")
    capture
    assert_includes @first, "true\nfalse\nfalse\ntrue\nfalse\n"
    assert_includes @first, %("#{path("lib/found.rb")}"\n["#{path("helper.rb")}", "#{@directory}", 2]\n"Late"\n)
    assert_same_without_files
  end

  def test_gems_beside_files_that_are_gone
    write("disk.rb" => "$LOAD_PATH.unshift(__dir__)\nGem\nrequire 'helper'\nbegin\n  require 'nowhere'\nrescue LoadError => e\n" \
                       "  puts e.path\nend\nputs HELPER\n#{TARGET}", "helper.rb" => "HELPER = 1\n")
    capture
    assert_equal "nowhere\n1\n", @first
    assert_same_without_files
  end

  def test_a_missing_file_of_a_missing_file
    write("disk.rb" => "require_relative 'helper'\n#{TARGET}", "helper.rb" => "require 'no/such/thing'\n")
    capture
    assert_match(/\ALoadError: cannot load such file -- no\/such\/thing\n/, @first)
    remove_files
    assert_match(/\ALoadError: cannot load such file -- no\/such\/thing\n/, replay)
  end

  def test_a_link_that_leads_elsewhere_by_now
    write("one/disk.rb" => "require_relative 'helper'\nputs HELPER, __FILE__, __dir__\n#{TARGET}", "one/helper.rb" => "HELPER = 1\n",
          "two/disk.rb" => "puts 'two'\n", "two/helper.rb" => "HELPER = 2\n")
    File.symlink(path("one/disk.rb"), path("disk.rb"))
    capture
    assert_equal "1\n#{path("disk.rb")}\n#{path("one")}\n", @first
    File.unlink(path("disk.rb"))
    File.symlink(path("two/disk.rb"), path("disk.rb"))
    assert_equal @first, replay
    FileUtils.rm_rf(path("one"))
    assert_equal @first, replay
  end

  def test_places
    write("disk.rb" => "\n\nrequire_relative 'helper'\nputs caller_locations(0, 1).first.lineno\nHelper.boom\n",
          "helper.rb" => "module Helper\n\n  def self.boom = raise('no')\nend\n")
    capture
    assert_match(/\A4\nRuntimeError: no\n#{path("helper.rb")}:3:in .*boom'\n#{path("disk.rb")}:5:in/, @first)
    assert_same_without_files
  end

  def test_errors_of_syntax
    write("disk.rb" => "\n\nclass Bad <\n")
    plain = run_script
    assert_match(/\ASyntaxError: .*disk\.rb:\d+: syntax error/, plain)
    assert_empty capture
    assert_equal plain, @first
    write("disk.rb" => "require_relative 'helper'\n", "helper.rb" => "1 +* 2\n")
    plain = run_script
    assert_equal [path("disk.rb")], capture.keys
    assert_equal plain, @first
  end

  def test_comments_that_mean_something
    latin = "# encoding: iso-8859-1\n# frozen_string_literal: true\nLATIN = \"caf\xe9\"\nputs LATIN.encoding, LATIN.bytesize, LATIN.frozen?\n".b
    write("disk.rb" => "\uFEFF#!/usr/bin/ruby\nrequire_relative 'latin'\nputs 'é'.encoding, ''.frozen?\n#{TARGET}__END__\n(((\n",
          "latin.rb" => latin)
    plain = run_script
    capture
    assert_equal plain, @first
    assert_equal "ISO-8859-1\n4\ntrue\nUTF-8\nfalse\n", @first
    assert_same_without_files
  end

  def test_warnings
    write("disk.rb" => "def self.x\n  unused = 1\nend\n1 == 1\n#{TARGET}")
    plain = run_script(options: ["-w"])
    capture(options: ["-w"])
    assert_match(/disk\.rb:2: warning: assigned but unused variable/, plain)
    assert_equal plain, @first
    assert_equal plain, replay(options: ["-w"])
    remove_files
    assert_equal plain, replay(options: ["-w"])
  end

  def test_what_is_loaded_twice_is_what_the_disk_has_then
    write("disk.rb" => "file = File.join(__dir__, 'settings.rb')\nload file\nputs $setting\nFile.write(file, '$setting = 2')\n" \
                       "load file\nputs $setting\n#{TARGET}", "settings.rb" => "$setting = 1")
    capture
    assert_equal "1\n2\n", @first
    assert_equal ["$setting = 1", "$setting = 2"], found.map(&:last).last(2)
  end

  def test_a_child
    write("disk.rb" => "Process.wait(fork { require_relative 'helper'; puts HELPER })\n#{TARGET}", "helper.rb" => "HELPER = 1\n")
    assert_equal [path("disk.rb")], capture.keys
    assert_equal "1\n", @first
  end

  def test_files_that_cannot_be_read
    write("disk.rb" => "begin\n  require_relative 'directory.rb'\nrescue LoadError => e\n  puts e.message\nend\n#{TARGET}")
    FileUtils.mkdir_p(path("directory.rb"))
    capture
    assert_equal "cannot load such file -- #{path("directory.rb")}\n", @first
  end

  def test_bytes_that_are_no_text
    write("disk.rb" => "DATA_OF = \"\\xff\"; puts __FILE__\n#{TARGET}# \xff\xfe\n".b, "café.rb" => "CAFE = 1\n")
    File.write(path("disk.rb"), "require_relative 'café'\n", mode: "a")
    capture
    assert_equal "#{path("disk.rb")}\n", @first
    assert_same_without_files
  end
end
