# frozen_string_literal: true

require "ublk/errors"
require "ublk/option"
require "ublk/target"

module UBLK
  # What a script says beside its classes: the layers round the target, outermost first, and options of its
  # own.
  class Stack
    # Stands for the value of a device's argument in the options of a layer: `use RateLimit, iops:
    # arg(:iops)`. With a block, for what the block makes of it.
    Argument = Struct.new(:name, :conversion) do
      # Yields the value for the layer, unless the argument was not given and has no default.
      def take(values)
        return unless values.key?(name)

        yield conversion ? conversion.call(values[name]) : values[name]
      end
    end

    # One `use`: the class, its options, and the line of the script.
    Use = Struct.new(:layer, :options, :line)

    attr_reader :target_class

    # uses: an Array of Use. own_options: Option by name, those that the script itself declares.
    def initialize(target_class, uses, own_options)
      @target_class = target_class
      @uses = uses
      @own_options = own_options
      check_arguments
    end

    # All that the device takes, by name: the target's, and the script's, which may say more of the same.
    def options = @target_class.options.merge(@own_options)

    # The strictest of what is declared: a layer may change the target's, but data that dies with the process
    # still does so below any layer.
    def recovery
      return :none if @target_class.recovery == :none

      declared = @uses.reverse.filter_map { |use| use.layer.own_recovery }
      declared.reduce(@target_class.recovery) { |below, own| below == :none ? below : own }
    end

    # Whether the target or a layer declares it.
    def network = declare?(:network)
    def jit = declare?(:jit)

    # values: the device's arguments by name. Raises HookError for what is wrong with a layer, and whatever a
    # constructor raises.
    def build(values)
      taken = @target_class.options
      target = @target_class.new(**values.slice(*taken.keys))
      @uses.reverse.reduce(target) { |below, use| wrap(below, use, values) }
    end

    private

    def declare?(need) = [@target_class, *@uses.map(&:layer)].any?(&need)

    def wrap(below, use, values)
      use.layer.new(below, **resolve(use.options, values))
    rescue ::ArgumentError => e
      raise HookError, "use #{name_of(use)} (line #{use.line}): #{e.message}"
    end

    def resolve(options, values)
      options.each_with_object({}) do |(name, value), resolved|
        next resolved[name] = value unless value.is_a?(Argument)

        value.take(values) { |taken| resolved[name] = taken }
      end
    end

    # A misspelt argument would otherwise only be one that nobody gave.
    def check_arguments
      known = options
      @uses.each do |use|
        use.options.each_value do |value|
          next unless value.is_a?(Argument) && !known.key?(value.name)

          raise HookError, "use #{name_of(use)} (line #{use.line}): " \
                           "the hook has no option #{value.name.inspect}; declare it with `option #{value.name.inspect}, …`"
        end
      end
    end

    def name_of(use) = Script.name_of(use.layer).delete_prefix("UBLK::Layers::")
  end
end
