# frozen_string_literal: true

require "ublk/errors"
require "ublk/secret/reference"

module UBLK
  # What a device was given, held against what its hook declares.
  module Arguments
    class << self
      # name: of the hook, for messages. options: Option by name. given: [[name, D-Bus type, value as text], …].
      # Returns the values by name, as `initialize` takes them once read_secrets was there. Raises ArgumentsError.
      def resolve(name, options, given)
        values = given.to_h do |key, letter, text|
          option = options[key.to_sym]
          raise ArgumentsError, "the hook #{name} has no option \"#{key}\": #{takes(options)}" unless option

          [option.name, option.from_dbus(letter, text)]
        end
        options.each_value { |option| add_missing(values, option, name, options) }
        values
      end

      # values: of resolve. directory: of a unit's credentials; nil where there is no unit. Returns them with the
      # secrets in place of what says where they are. Raises ArgumentsError.
      def read_secrets(values, directory)
        values.to_h { |name, value| [name, value.is_a?(Secret::Reference) ? value.read(name, directory) : value] }
      end

      private

      def add_missing(values, option, name, options)
        return if values.key?(option.name)
        return values[option.name] = option.default unless option.default.nil?
        return unless option.required?

        raise ArgumentsError, "the hook #{name} needs the option \"#{option.name}\": #{takes(options)}"
      end

      def takes(options)
        options.empty? ? "it takes no options" : "it takes #{options.values.join(", ")}"
      end
    end
  end
end
