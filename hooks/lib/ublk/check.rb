# frozen_string_literal: true

require "ublk/abilities"
require "ublk/check/faults"
require "ublk/script"

module UBLK
  # What `ublk-ruby-worker --check` does from within Ruby. Every method is called by C, with the target (nil
  # before one is built) and Strings, and returns plain data. Nothing of this is loaded in a worker that serves.
  module Check
    # A second target in the same process, as a program makes it that has two devices of one class: the script does
    # not run again.
    module KeepScript
      def new(*)
        Check.keep && Check.script || (Check.script = super)
      end
    end

    module KeepClass
      def load(*)
        Check.keep && Check.target_class || (Check.target_class = super)
      end
    end

    @keep = false
    @script = @target_class = nil

    class << self
      attr_accessor :keep, :script, :target_class

      # The schema: what the script says of its target before it is built.
      def describe(_target, path, state, class_name = nil)
        Runtime.instance_variable_set(:@path, path) # whose lines errors name
        UBLK.serve_device("check", read_only: false, state: state, state_owner: 0) unless state.empty?
        script = Script.new(path)
        klass = script.load(class_name)
        stack = script.stack(klass)
        { class: Script.name_of(klass), options: stack.options.each_value.map { |option| describe_option(option) },
          recovery: stack.recovery.to_s.tr("_", "-"), concurrency: klass.concurrency,
          network: stack.network, jit: stack.jit, sink: sink?(klass) }
      end

      # Asked again, of the target itself.
      def geometry(target)
        %w[size logical_block_size physical_block_size read_only? rotational?].to_h do |name|
          value = target.public_send(name)
          [name, value.is_a?(Integer) && value.bit_length < 64 || [true, false].include?(value) ? value : value.inspect[0, 80]]
        end
      end

      # Before the hook is loaded.
      def prepare(_target)
        Script.singleton_class.prepend(KeepScript)
        Script.prepend(KeepClass)
        nil
      end

      # Whether later loads build another target of the class that the last one found.
      def same_class(_target, yes)
        @keep = yes == "yes"
      end

      # What a disk like `null` says of itself with `def self.sink? = true`.
      def sink?(klass) = klass.respond_to?(:sink?) && klass.sink? ? true : false

      def stress(_target) = GC.stress = true

      def collect(_target)
        GC.start
        GC.compact if GC.respond_to?(:compact)
      rescue NotImplementedError
        nil # no compaction on this platform
      end

      # Class variables by name: where a state may be that two targets share.
      def class_variables_of(target)
        target = target.target while Abilities.layer?(target)
        target.class.ancestors.take_while { |klass| klass != Target }.flat_map { |klass| klass.class_variables(false) }.uniq
      end

      # Threads take turns wherever the hook calls into C: what may happen now and then happens at once.
      def take_turns(_target)
        TracePoint.new(:c_return) { Thread.pass }.enable
        nil
      end

      private

      def describe_option(option)
        { name: option.name, type: option.type, required: option.required?,
          default: option.default&.to_s, doc: option.doc&.to_s }
      end
    end
  end
end
