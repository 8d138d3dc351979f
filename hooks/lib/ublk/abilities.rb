# frozen_string_literal: true

require "ublk/target"

module UBLK
  # Which optional methods a target has: decides what the device advertises. A layer has what is below it,
  # unless it says otherwise (Layer#supports?).
  module Abilities
    # What has to be known of a method is asked of the object itself, whatever the hook calls `method`.
    METHOD = Kernel.instance_method(:method)

    # The other form of an operation: given a UBLK::Buffer.
    BUFFER_FORMS = { read: :read_into, write: :write_from }.freeze

    SINGLETON_CLASS = Kernel.instance_method(:singleton_class)

    class << self
      # operation: :read, :write, :flush, :discard, :write_zeroes or :resize. Whether the target does it, in whatever form, and
      # not only inherits from UBLK::Target what refuses it.
      def supports?(target, operation)
        return target.supports?(operation) if layer?(target)

        defines?(target, operation) || defines?(target, BUFFER_FORMS[operation])
      end

      # operation: :read or :write. Whether the target is best given a UBLK::Buffer: it has that form, and no String form
      # that came later, in a class derived from the one that has it. A layer that only passes on has what is below it.
      def buffers?(target, operation)
        newer = newer_form(target, operation)
        return newer == BUFFER_FORMS[operation] if newer
        return false unless defines?(target, operation)

        layer?(target) ? buffers?(target.target, operation) : true
      end

      # Whether a layer round the target would call a form that is older than the other, and so go round what that one does.
      def goes_round?(layer, target)
        BUFFER_FORMS.any? do |plain, into|
          case newer_form(target, plain)
          when into then defines?(target, plain)
          when plain then defines?(target, into) && newer_form(layer, plain) == into
          end
        end
      end

      # Which forms the service is to use. path: the device's option data-path. Raises HookError.
      def forms(target, path, writable: true)
        return { reads_into: false, writes_from: false } if path == "string"

        forms = { reads_into: buffers?(target, :read), writes_from: buffers?(target, :write) }
        missing = forms.reject { |name, yes| yes || (name == :writes_from && !writable) }.keys if path == "buffer"
        return forms if missing.nil? || missing.empty?

        names = missing.map { |name| name == :reads_into ? "read_into" : "write_from" }.join(" and ")
        raise HookError, "data-path=buffer needs a hook that is given buffers, with nothing round it that wants a String: " \
                         "define #{names}, or leave data-path out"
      end

      # In its class, a module, or on the object itself.
      def defines?(target, name)
        name && METHOD.bind_call(target, name).owner != Target ? true : false
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

      private

      # That of the class which is derived from the other's; nil if one class has both, or none has.
      def newer_form(target, operation)
        ancestors = SINGLETON_CLASS.bind_call(target).ancestors
        plain, into = [operation, BUFFER_FORMS[operation]].map { |name| ancestors.index(METHOD.bind_call(target, name).owner) }
        plain < into ? operation : BUFFER_FORMS[operation] unless plain == into
      rescue NameError
        nil
      end
    end
  end
end
