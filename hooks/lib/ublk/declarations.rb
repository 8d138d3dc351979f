# frozen_string_literal: true

require "ublk/option"

module UBLK
  # What a target says of itself in its class body. A subclass has what its superclass declared and may
  # declare it anew.
  module Declarations
    CONCURRENCY_MAX = 1024
    RECOVERIES = %i[none fail fail_io reissue].freeze

    # Declares an argument of the device. type: :string, :integer, :bytes, :bool, :float, :duration (seconds),
    # :path (absolute) or :secret (a UBLK::Secret, without a default). It arrives as a keyword of `initialize`; one that was not given and has no default
    # does not arrive.
    def option(name, type, required: false, default: nil, doc: nil)
      declared = Option.new(name, type, required: required, default: default, doc: doc)
      own_options[declared.name] = declared
    end

    # All options by name, those of the superclasses first.
    def options
      (superclass.respond_to?(:options) ? superclass.options : {}).merge(own_options)
    end

    # What may happen to requests that were under way when the worker died. :none (of the base class): the
    # data went with the process, so the disk goes as well. :reissue: they are served again by the next
    # worker; whatever was written and answered must be in a place that outlives the process. :fail: they
    # fail, later ones wait for the next worker. :fail_io: all fail until it is there. Without a value: what
    # is declared.
    def recovery(value = nil)
      return declared(:@recovery, :none) if value.nil?
      unless RECOVERIES.include?(value)
        raise ArgumentError, "recovery is one of #{RECOVERIES.map(&:inspect).join(", ")}, not #{value.inspect}"
      end

      @recovery = value
    end

    # What this class or a superclass of it declares, nil if none did.
    def own_recovery
      return @recovery if instance_variable_defined?(:@recovery)

      superclass.respond_to?(:own_recovery) ? superclass.own_recovery : nil
    end

    # How many requests the target can serve at a time, each on a Ruby thread of its own.
    def concurrency(value = nil)
      return declared(:@concurrency, 1) if value.nil?
      unless value.is_a?(Integer) && value.between?(1, CONCURRENCY_MAX)
        raise ArgumentError, "concurrency is an Integer from 1 to #{CONCURRENCY_MAX}, not #{value.inspect}"
      end

      @concurrency = value
    end

    # Whether the target needs the network: says which drop-in its unit gets.
    def network(value = nil) = declare_flag(:@network, value)

    # Whether the target gains from Ruby's JIT, which needs memory that is both writable and executable.
    def jit(value = nil) = declare_flag(:@jit, value)

    private

    def own_options = @own_options ||= {}

    def declared(variable, default)
      return instance_variable_get(variable) if instance_variable_defined?(variable)

      name = variable.to_s.delete_prefix("@")
      superclass.respond_to?(name) ? superclass.public_send(name) : default
    end

    def declare_flag(variable, value)
      return declared(variable, false) if value.nil?

      instance_variable_set(variable, value ? true : false)
    end
  end
end
