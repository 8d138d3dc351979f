# frozen_string_literal: true

require "ublk/errors"
require "ublk/target"

module UBLK
  # A hook script that is being loaded: which classes it defines, and which of them is the target.
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
    end

    # Runs the script and returns the target's class. class_name: the user's choice, over anything the script
    # says. Raises NoHookError, HookError, ArgumentsError, and whatever the script raises.
    def load(class_name = nil)
      check_file
      first = Target.derived.size
      run_file
      @classes = Target.derived.drop(first).filter_map { |klass, file| klass if same_file?(file) }
      class_name ? find_named(class_name) : @chosen || the_only_one
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
      Kernel.load(path, Script.loaded_before ? Module.new : false)
    ensure
      Script.current = nil
      Script.loaded_before = true
    end

    def same_file?(file)
      file == path || (file && File.exist?(file) && File.identical?(file, path))
    end

    # Those that no other class of the script is derived from.
    def candidates
      @classes.reject { |klass| @classes.any? { |other| other < klass } }
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

# In a hook script: `run FileDisk` says which class is the target.
TOPLEVEL_BINDING.receiver.define_singleton_method(:run) do |target|
  script = UBLK::Script.current or raise UBLK::HookError, "run is for a hook script that is being loaded"
  script.choose(target)
end
