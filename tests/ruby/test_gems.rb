# frozen_string_literal: true

require_relative "test_helper"

# RubyGems that comes when it is needed: in an interpreter that was started without, as the worker's is.
class TestGems < Minitest::Test
  RUBY = [RbConfig.ruby, "--disable=gems,did_you_mean,error_highlight", "-I#{File.join(ROOT, "hooks/lib")}"].freeze
  HEADER = "require 'ublk/gems'\nUBLK::Gems.prepare(%p)\nat_exit { puts $LOADED_FEATURES.any? { |f| f.end_with?('/rubygems.rb') } }\n"

  def run_code(code, script: File.join(@directory, "hook.rb"), environment: {})
    File.write(script, "") unless File.exist?(script)
    output = IO.popen({ "HOME" => @directory, "RUBYOPT" => nil, **environment }, [*RUBY, "-e", format(HEADER, script) + code],
                      err: %i[child out], &:read)
    output.lines.map(&:chomp)
  end

  def setup = @directory = Dir.mktmpdir
  def teardown = FileUtils.rm_rf(@directory)

  # A gem in the home directory of the user that runs it.
  def install_gem(name, version, files)
    home = File.join(@directory, ".local/share/gem/ruby", RbConfig::CONFIG["ruby_version"])
    files.each do |file, text|
      path = File.join(home, "gems/#{name}-#{version}/lib", file)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, text)
    end
    FileUtils.mkdir_p(File.join(home, "specifications"))
    File.write(File.join(home, "specifications/#{name}-#{version}.gemspec"), <<~RUBY)
      Gem::Specification.new do |s|
        s.name = #{name.inspect}
        s.version = #{version.inspect}
        s.summary = s.author = "test"
        s.files = #{files.keys.map { |file| "lib/#{file}" }.inspect}
        s.require_paths = ["lib"]
      end
    RUBY
  end

  def test_nobody_asks
    assert_equal %w[false], run_code("class Hook; end")
    assert_equal %w[[1] false], run_code("require 'json'; puts JSON.parse('[1]').inspect")
    assert_equal ["expression", "Monitor", "false"],
                 run_code("puts defined?(Gem) && 'expression', Monitor, RbConfig.ruby && nil").reject(&:empty?)
  end

  def test_a_require_that_finds_nothing
    install_gem("somegem", "1.2.3", "somegem.rb" => "SOME = 5", "somegem/more.rb" => "MORE = 6")
    assert_equal %w[5 6 1.2.3 true],
                 run_code("require 'somegem'; require 'somegem/more'; puts SOME, MORE, Gem.loaded_specs['somegem'].version")
    assert_equal ["cannot load such file -- nowhere/at/all", "nowhere/at/all", "true"],
                 run_code("begin; require 'nowhere/at/all'; rescue LoadError => e; puts e.message, e.path; end")
  end

  def test_a_library_that_misses_another
    File.write(File.join(@directory, "outer.rb"), "require 'inner_that_is_missing'")
    code = "$LOAD_PATH.unshift #{@directory.inspect}; begin; require 'outer'; rescue LoadError => e; puts e.path; end"
    assert_equal %w[inner_that_is_missing true], run_code(code)
  end

  def test_whoever_names_it
    ["gem 'minitest'", "Gem::Version.new('1')", "Gem::Specification.to_s", "require 'rubygems'", "require 'bundler'",
     "Gem.path"].each { |code| assert_equal "true", run_code(code).last, code }
    assert_equal %w[true], run_code("begin; gem 'nosuchgem'; rescue Gem::MissingSpecError; end")
    assert_equal %w[false true], run_code("puts require('rubygems')")
  end

  # Ruby's own `require` is what RubyGems wraps, and nothing of ours is left.
  def test_all_is_as_without_us
    code = "Gem; puts Kernel.private_method_defined?(:gem_original_require), Kernel.private_method_defined?(:ublk_original_require), " \
           "Kernel.instance_method(:gem_original_require).source_location.inspect"
    assert_equal %w[true false nil true], run_code(code)
  end

  def test_a_newer_gem_takes_the_place_of_a_library_of_rubys_own
    install_gem("json", "99.0.0", "json.rb" => "JSON = 99")
    assert_equal %w[99 true], run_code("require 'json'; puts JSON")
    FileUtils.rm_rf(File.join(@directory, ".local"))
    install_gem("harmless", "1.0", "harmless.rb" => "")
    assert_equal %w[Module false], run_code("require 'json'; puts JSON.class")
  end

  def test_threads
    install_gem("somegem", "1.2.3", "somegem.rb" => "SOME = 5")
    assert_equal %w[true true true true true], run_code("puts 4.times.map { Thread.new { require 'somegem'; SOME == 5 } }.map(&:value)")
  end

  def test_autoload_and_odd_arguments
    install_gem("somegem", "1.2.3", "somegem.rb" => "SOME = 5")
    assert_equal %w[5 true], run_code("autoload :SOME, 'somegem'; puts SOME")
    assert_equal %w[5 true], run_code("require Struct.new(:to_path).new('somegem'); puts SOME")
    assert_equal %w[TypeError false], run_code("begin; require 5; rescue TypeError => e; puts e.class; end")
  end

  def with_gemfile(text)
    FileUtils.mkdir_p(File.join(@directory, "hooks"))
    File.write(File.join(@directory, "hooks/Gemfile"), "source 'https://rubygems.org'\n#{text}")
    File.join(@directory, "hooks/hook.rb")
  end

  # None of them is written to: the worker may not.
  def test_gemfile
    install_gem("somegem", "1.2.3", "somegem.rb" => "SOME = 5")
    install_gem("somegem", "2.0.0", "somegem.rb" => "SOME = 6")
    script = with_gemfile("gem 'somegem', '~> 1.0'\n")
    assert_equal %w[5 true], run_code("require 'somegem'; puts SOME", script: script)
    refute File.exist?(File.join(@directory, "hooks/Gemfile.lock"))
    assert_equal %w[6 true], run_code("require 'somegem'; puts SOME")
    link = File.join(@directory, "link.rb")
    File.symlink(script, link)
    assert_equal %w[5 true], run_code("require 'somegem'; puts SOME", script: link)
  end

  def test_gemfile_that_is_not_installed
    script = with_gemfile("gem 'nosuchgem'\n")
    assert_includes run_code("puts 'not reached'", script: script).join("\n"), "nosuchgem"
    refute_includes run_code("puts 'not reached'", script: script).join("\n"), "not reached"
  end
end
