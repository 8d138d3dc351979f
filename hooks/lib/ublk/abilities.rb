# frozen_string_literal: true

require "ublk/target"

module UBLK
  # Which optional methods a target has: decides what the device advertises. A layer has what is below it,
  # unless it says otherwise (Layer#supports?).
  module Abilities
    # What has to be known of a method is asked of the object itself, whatever the hook calls `method`.
    METHOD = Kernel.instance_method(:method)

    class << self
      # operation: :read, :write, :flush, :discard, :write_zeroes or :resize. Whether the target does it, and not only
      # inherits from UBLK::Target what refuses it.
      def supports?(target, operation)
        layer?(target) ? target.supports?(operation) : defines?(target, operation)
      end

      # In its class, a module, or on the object itself.
      def defines?(target, name)
        METHOD.bind_call(target, name).owner != Target
      rescue NameError
        false
      end

      # Whether its write_zeroes has the keyword `unmap:`.
      def takes_unmap?(target)
        METHOD.bind_call(target, :write_zeroes).parameters.any? do |kind, name|
          kind == :keyrest || (%i[key keyreq].include?(kind) && name == :unmap)
        end
      end

      # Does not load the class if nobody did.
      def layer?(target)
        UBLK.autoload?(:Layer).nil? && Layer === target # rubocop:disable Style/CaseEquality: a target may lie
      end
    end
  end
end
