# frozen_string_literal: true

require "ublk/gems"

module UBLK
  # The hook's own code: the script and whatever it loads that is not installed. In a worker each file is read
  # once, compiled from what was read, and handed to the worker, who keeps it for the device's next worker; that
  # one gets it back and runs the same code, whatever the disk has by then.
  #
  # `__FILE__`, `__dir__`, `require_relative` and messages are what they are when Ruby reads the file by itself;
  # a backtrace says `<compiled>` where it would say `<top (required)>`.
  module Code
    # Ruby asks for each file that it is about to load, whoever loads it in whatever way; nil: it reads it itself.
    module Loader
      def load_iseq(path) = Code.compile(path)
    end

    class << self
      # Before the script. files: [[path, real path, source], …], or nil for what is on the disk. capture: whether
      # anything is done at all.
      def prepare(files, capture:)
        @capture = capture
        @files = (files || []).to_h { |path, *file| [path.b, file] }
        return unless capture

        @installed ||= $LOAD_PATH.map { |directory| directory_of(directory) }
        RubyVM::InstructionSequence.singleton_class.prepend(Loader)
        require "ublk/code/missing" if @files.each_key.any? { |path| !File.exist?(path) }
      end

      # The file's code as the last worker had it, the first time; then as it is on the disk: a script that loads
      # a file again and again asks for that. nil for what is installed, for what can't be read, and for a
      # file with an error in its syntax: Ruby says best what is wrong with these.
      def compile(path)
        return unless @capture

        kept = @files.delete(path.b)
        real_path, source = kept || read(path)
        return unless source

        code = RubyVM::InstructionSequence.compile(source, path, real_path, 1)
        loaded(path, real_path, source) unless kept
        code
      rescue SyntaxError
        nil
      end

      # Whether there is code of that path, but no such file any more.
      def missing?(path) = @files&.key?(path.b) && !File.exist?(path)

      # Runs the code of a file that is missing. Raises whatever it raises.
      def run(path)
        code = compile(path) or raise LoadError, "cannot load such file -- #{path}"
        code.eval
      end

      private

      # What Ruby made a file of, in the encoding that it assumes where a file names none.
      def read(path)
        real_path = File.realpath(path)
        return if installed?(path) || installed?(real_path)

        [real_path, File.binread(real_path).force_encoding(Encoding::UTF_8)]
      rescue SystemCallError
        nil
      end

      # RubyGems itself is installed: it is asked only for the others, as it loads parts of itself to answer.
      def installed?(path)
        path.start_with?(*@installed) || path.start_with?(*gem_directories)
      end

      # None before RubyGems is loaded, as no gem can be.
      def gem_directories
        Gems.loaded? ? ::Gem.path.map { |directory| directory_of(directory) } : []
      end

      def directory_of(path)
        "#{File.realpath(path)}/"
      rescue SystemCallError
        "#{path}/"
      end
    end
  end
end
