# frozen_string_literal: true

require "ublk/code"
require "ublk/errors"
require "ublk/gems"
require "ublk/stack"
require "ublk/target"

module UBLK
  # While a script is loaded, `Trace` is UBLK::Layers::Trace wherever nothing else has that name.
  module LayerNames
    def const_missing(name)
      Script.current && Layers.const_defined?(name, false) ? Layers.const_get(name, false) : super
    end
  end

  # A hook script that is being loaded: which classes it defines, which of them is the target, and what it
  # puts round it.
  class Script
    CLASS_NAME = /\A[A-Z]\w*(?:::[A-Z]\w*)*\z/

    class << self
      # The one being loaded, nil otherwise.
      attr_accessor :current

      # Whether a script was loaded into this process before.
      attr_accessor :loaded_before
    end

    attr_reader :path

    def initialize(path)
      @path = path
      @chosen = nil
      @uses = []
      @options = {}
    end

    # Runs the script and returns the target's class. class_name: the user's choice, over anything the script
    # says. Raises NoHookError, HookError, ArgumentsError, and whatever the script raises.
    def load(class_name = nil)
      check_file unless Code.missing?(path)
      Gems.prepare(path)
      @first = Target.derived.size
      run_file
      target_class(class_name)
    end

    # For a script that Ruby itself has begun to run: what it says from here on is said to this.
    def follow
      @first = Target.derived.size
      Script.current = self
    end

    # Once the script has run. Raises HookError, ArgumentsError.
    def target_class(class_name = nil)
      @classes = Target.derived.drop(@first).filter_map { |klass, file| klass if same_file?(file) }
      class_name ? find_named(class_name) : @chosen || the_only_one
    end

    # After load: the target with what the script puts round it. Raises HookError.
    def stack(target_class) = Stack.new(target_class, @uses, @options)

    # What `use X, **options` in the script does; line: of the script.
    def add_layer(layer, options, line)
      unless layer.is_a?(Class) && layer < Target && layer.layer?
        raise HookError, "use takes a layer, a subclass of UBLK::Layer, not " \
                         "#{layer.is_a?(Module) ? Script.name_of(layer) : layer.class}"
      end

      @uses << Stack::Use.new(layer, options, line)
      layer
    end

    # What `option` outside any class does.
    def add_option(name, type, **facts)
      option = Option.new(name, type, **facts)
      @options[option.name] = option
    end

    # What `run X` in the script does.
    def choose(target)
      unless target.is_a?(Class) && target < Target
        raise HookError, "run takes a subclass of UBLK::Target, not #{target.is_a?(Module) ? target : target.class}"
      end
      if @chosen
        raise HookError, "run was called twice: with #{Script.name_of(@chosen)}, then with #{Script.name_of(target)}"
      end

      @chosen = target
    end

    # Without the module that a second load is wrapped in.
    def self.name_of(klass)
      klass.name ? klass.name.sub(/\A#<Module:0x\h+>::/, "") : "an anonymous class"
    end

    private

    # `load` would say of all of these that there is no such file.
    def check_file
      File.open(path) { |file| raise HookError, "#{path} is not a file" unless file.stat.file? }
    rescue Errno::ENOENT
      raise NoHookError, "there is no hook #{path}"
    rescue Errno::EACCES
      raise HookError, "#{path} can't be read by the user #{Script.user}: chmod a+r it, and a+x the directories above"
    end

    # The second time in a module of its own, since the classes of the first are still there.
    def run_file
      Script.current = self
      return Code.run(path) if Code.missing?(path)

      Kernel.load(path, Script.loaded_before ? Module.new.extend(LayerNames) : false)
    ensure
      Script.current = nil
      Script.loaded_before = true
    end

    def same_file?(file)
      file == path || (file && File.exist?(file) && File.identical?(file, path))
    end

    # Those that no other class of the script is derived from, and that are no layers.
    def candidates
      @classes.reject { |klass| klass.layer? || @classes.any? { |other| other < klass } }
    end

    def list(classes) = classes.map { |klass| Script.name_of(klass) }.join(", ")

    def the_only_one
      found = candidates
      return found.first if found.one?
      raise HookError, "#{path} defines no subclass of UBLK::Target" if found.empty?

      raise HookError, "#{path} defines several targets: #{list(found)}. " \
                       "Say which with `run #{Script.name_of(found.first)}` at its end, or with the option class"
    end

    def find_named(name)
      found = @classes.find { |klass| Script.name_of(klass) == name }
      found ||= Object.const_get(name) if CLASS_NAME.match?(name) && Object.const_defined?(name)
      return found if found.is_a?(Class) && found < Target

      defined = @classes.empty? ? "none" : list(@classes)
      raise ArgumentsError, "class: #{name} is no subclass of UBLK::Target; those that #{path} defines: #{defined}"
    end

    def self.user
      require "etc"
      Etc.getpwuid(Process.euid)&.name || Process.euid.to_s
    end
  end
end

Object.extend(UBLK::LayerNames)

# What a hook script says outside its classes.
{
  # `run FileDisk`: that class is the target.
  run: ->(script, target) { script.choose(target) },
  # `use RateLimit, iops: 500`: goes round what the lines below it make. The first one sees a request first.
  use: lambda do |script, layer, **options|
    script.add_layer(layer, options, caller_locations.find { |at| at.path == script.path }&.lineno)
  end,
  # `option :iops, :integer, default: 500`: an argument of the device that the target does not know, for
  # layers.
  option: ->(script, name, type, **facts) { script.add_option(name, type, **facts) },
  # `arg(:iops)`: in the options of a layer, the value of that argument; or what the block makes of it.
  arg: ->(_script, name, &conversion) { UBLK::Stack::Argument.new(name.to_sym, conversion) }
}.each do |word, action|
  TOPLEVEL_BINDING.receiver.define_singleton_method(word) do |*values, **options, &block|
    script = UBLK::Script.current or
      raise UBLK::HookError, "#{word} is for a hook script that is being loaded"
    action.call(script, *values, **options, &block)
  end
end
