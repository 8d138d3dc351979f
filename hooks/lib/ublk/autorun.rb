# frozen_string_literal: true

require "ublk"
require "ublk/script"

module UBLK
  # Makes a hook script a program: with `require "ublk/autorun"` as its first line, or as `ruby -r ublk/autorun
  # disk.rb`, the script serves its disk with UBLK::Device once Ruby has read it to the end, and takes its options
  # from the command line: `ruby disk.rb size=64M`. `ruby disk.rb --help` lists them. In a worker, and where the
  # script is required by another program, it does nothing.
  class Autorun
    # Frames of `require` itself.
    NOT_A_FILE = /\A<internal:|\/rubygems\/|\A-r|\Aruby\z/

    # caller: the locations that led here.
    def self.start(caller)
      requirer = caller.map(&:path).find { |path| !path.match?(NOT_A_FILE) }
      return if Script.current || !File.file?($PROGRAM_NAME) || (requirer && requirer != $PROGRAM_NAME)

      program = new($PROGRAM_NAME)
      at_exit { program.run(ARGV) unless $! } # rubocop:disable Style/SpecialGlobalVars: the script's own failure
    end

    def initialize(path)
      @name = File.basename(path, ".rb")
      @script = Script.new(File.expand_path(path))
      @script.follow
    end

    # Serves until it is interrupted. Ends the process with 2 for wrong usage, 1 for what goes wrong later.
    def run(words)
      stack = @script.stack(@script.target_class)
      settings, given = parse(words, stack)
      Script.current = nil
      serve(stack.build(given), settings)
    rescue ArgumentsError, OptionParser::ParseError => e
      leave(2, "#{e.message} (--help lists the options)")
    rescue Error, ArgumentError, SystemCallError => e
      leave(1, e.message)
    end

    private

    def leave(status, message)
      warn "#{@name}: #{Secret::Concealment.apply(message)}"
      exit status
    end

    # [what UBLK::Device is to be told, what the target and its layers are]
    def parse(words, stack)
      require "optparse"
      settings = {}
      rest = parser(stack, settings).parse(words)
      [settings, Arguments.read_secrets(Arguments.resolve(@name, stack.options, rest.map { |word| split(word) }), nil)]
    end

    def split(word)
      key, value = word.split("=", 2)
      raise ArgumentsError, "#{word.inspect} is not of the form key=value" unless value

      [key, "s", value]
    end

    def parser(stack, settings)
      OptionParser.new do |parser|
        parser.banner = "Usage: ruby #{$PROGRAM_NAME} [OPTION...] [KEY=VALUE...]\n\nServes a disk until it is interrupted."
        parser.on("--queues N", Integer, "queues, each with a thread of its own") { |n| settings[:queues] = n }
        parser.on("--depth N", Integer, "requests at a time in each") { |n| settings[:depth] = n }
        parser.on("--recovery", "the disk outlives this program, for --recover") { settings[:recovery] = true }
        parser.on("--recover ID", Integer, "take over the disk of a program that is gone") { |id| settings[:recover] = id }
        keys = stack.options.each_value.map { |option| "    #{option}" }
        parser.separator(["", "Keys:", *(keys.empty? ? "    none" : keys)])
      end
    end

    def serve(target, settings)
      device = if settings.key?(:recover) then Device.recover(target, id: settings[:recover])
               else Device.create(target, **settings)
               end
      device.start
      $stdout.puts device.path
      $stdout.flush
      device.run
    end
  end
end

require "ublk/arguments"
UBLK::Autorun.start(caller_locations)
