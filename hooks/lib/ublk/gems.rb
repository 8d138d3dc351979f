# frozen_string_literal: true

module UBLK
  # RubyGems when somebody needs it. The worker starts Ruby without: loading it takes four fifths of the
  # start, and most hooks never look at a gem. A script sees no difference:
  #
  # * a `require` that finds nothing loads RubyGems and is tried again, so that installed gems are found;
  # * so do `gem`, the constant Gem, and a `require` of bundler;
  # * a gem that somebody installed over a library of Ruby's own still takes its place;
  # * a Gemfile beside the script (or beside the file that the script is a link to) is set up by Bundler.
  #
  # In an interpreter that has RubyGems already, only the Gemfile is looked at.
  module Gems
    # What RubyGems brings along and scripts use without asking for it.
    CONSTANTS = { Gem: "ublk/gems/load", RbConfig: "rbconfig",
                  Monitor: "monitor", MonitorMixin: "monitor" }.freeze

    # Libraries that are none without RubyGems.
    OWN = %r{\A(?:rubygems|bundler)(?:/|\.rb\z|\z)}

    class << self
      # Before a script is run. Raises what Bundler raises where the Gemfile asks for what is not installed.
      def prepare(script)
        require "ublk/gems/lazy" unless Object.const_defined?(:Gem)
        bundle(script)
      end

      # Whether a `require` of it has to go through RubyGems from the start.
      def first?(path)
        OWN.match?(path) || replaced?
      end

      # Loads RubyGems. False where there is none.
      def load
        ::Gem && true
      rescue ::LoadError
        false
      end

      # Round what loads it.
      def loading
        @loader = Thread.current
        yield
        @loaded = true
      ensure
        @loader = nil
      end

      # Whether it came, and is whole.
      def loaded? = @loaded

      # Whether a `require` is none of ours: RubyGems is there, or is being loaded by this thread.
      def passive? = @loaded || @loader == Thread.current

      private

      # One that is set up stays: Bundler is for a whole process.
      def bundle(script)
        gemfile = gemfile_beside(script)
        return if gemfile.nil? || ENV.key?("BUNDLE_GEMFILE")

        ENV["BUNDLE_GEMFILE"] = gemfile
        require "bundler"
        ::Bundler.load.define_singleton_method(:lock) { |*| nil } # the worker may not write a Gemfile.lock
        ::Bundler.ui.silence { ::Bundler.setup }
      end

      def gemfile_beside(script)
        [script, File.realpath(script)].map { |path| File.join(File.dirname(path), "Gemfile") }
                                       .find { |path| File.file?(path) }
      rescue SystemCallError
        nil # the loader says what is wrong with the script
      end

      # Whether a gem of a default gem's name is installed: then RubyGems has to choose between the two.
      def replaced?
        return @replaced unless @replaced.nil?

        @replaced = false # RbConfig is a `require` of its own
        own = names(File.join(library_directory, "specifications/default"))
        @replaced = install_directories.any? do |directory|
          own.intersect?(names(File.join(directory, "specifications")))
        end
      end

      # Where `gem install` puts them: as root on any system and on Debian, by hand, and as this user.
      def install_directories
        version = RbConfig::CONFIG["ruby_version"]
        [library_directory, "/var/lib/gems/#{version}", "/usr/local/lib/ruby/gems/#{version}",
         *user_directories(version)]
      end

      def user_directories(version)
        home = Dir.home
        data = ENV.fetch("XDG_DATA_HOME", "#{home}/.local/share")
        ["#{home}/.gem/ruby/#{version}", "#{data}/gem/ruby/#{version}"]
      rescue ArgumentError
        [] # nobody's home
      end

      def library_directory
        File.join(*RbConfig::CONFIG.values_at("rubylibprefix", "ruby_version").insert(1, "gems"))
      end

      # Of the gems that have a specification in a directory; no order.
      def names(directory)
        Dir.each_child(directory).filter_map { |file| file[/\A(.+)-\d[^-]*(?:-[^-]+)*\.gemspec\z/, 1] }
      rescue SystemCallError
        []
      end
    end
  end
end
