# frozen_string_literal: true

require "ublk/errors"
require "ublk/types"

module UBLK
  # One argument that a target takes: `option :size, :bytes, required: true, doc: "size of the disk"`.
  class Option
    NAME = /\A[a-z_][a-z0-9_]{0,63}\z/

    # The service's own keys of CreateDevice, which never reach a hook, and the same with underscores, which
    # would only be mistaken for them.
    RESERVED = %w[
      queues depth max-io-size read-only recovery on-failure id persistent mlock hook-timeout start-timeout partscan
      data-path processes concurrency class
    ].flat_map { |key| [key, key.tr("-", "_")] }.uniq.freeze

    attr_reader :name, :type, :default, :doc

    # Raises ArgumentError for a bad declaration.
    def initialize(name, type, required: false, default: nil, doc: nil)
      @name = check_name(name.to_s)
      @type = type
      @traits = Types::TABLE[type] or raise ArgumentError, unknown_type
      @required = required
      @doc = doc
      @default = check_default(default)
    rescue ArgumentsError => e
      raise ArgumentError, "the default of #{e.message}"
    end

    def required? = @required

    # Its value must not be seen.
    def secret? = type == :secret

    # A Ruby value: a String is parsed by the type, anything else must be of it. That of a :secret is a UBLK::Secret, or
    # a Secret::Reference that is still to be read. Raises ArgumentsError.
    def coerce(value)
      parsed = value.is_a?(String) ? @traits.parse.call(value) : value
      return parsed if @traits.accept.call(parsed)

      given = secret? ? "; never give the secret itself" : ", not #{value.inspect[0, 80]}"
      raise ArgumentsError, "option \"#{name}\" wants #{@traits.wants}#{given}"
    end

    # A D-Bus value: its type's letter, and the value as text. Raises ArgumentsError.
    def from_dbus(letter, text)
      return coerce(text) if letter == "s"
      unless @traits.dbus.include?(letter)
        raise ArgumentsError, "option \"#{name}\" wants #{@traits.wants} " \
                              "(D-Bus type #{Types.dbus_names(@traits)}), not D-Bus type #{letter}"
      end

      value = native(letter, text)
      coerce(@traits.from_dbus ? @traits.from_dbus.call(value, letter) : value)
    end

    # "size (bytes, required)"
    def to_s
      facts = [type, ("required" if required?), ("default #{default}" unless default.nil?), doc]
      "#{name} (#{facts.compact.join(", ")})"
    end

    private

    def check_name(name)
      reason = "it must match #{NAME.source}" unless NAME.match?(name)
      reason ||= "the service has one of this name" if RESERVED.include?(name)
      raise ArgumentError, "#{name.inspect} can't be the name of an option: #{reason}" if reason

      name.to_sym
    end

    def unknown_type
      "unknown type #{type.inspect}: options have one of #{Types::TABLE.keys.map(&:inspect).join(", ")}"
    end

    def check_default(default)
      return if default.nil?
      raise ArgumentError, "option \"#{name}\": a secret in a script is none, so it has no default" if secret?

      coerce(default)
    end

    def native(letter, text)
      case letter
      when "b" then text == "true"
      when "d" then Float(text)
      else Integer(text, 10)
      end
    rescue ::ArgumentError
      raise ArgumentsError, "option \"#{name}\": #{text[0, 80].inspect} is no value of D-Bus type #{letter}"
    end
  end
end
