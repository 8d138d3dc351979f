# frozen_string_literal: true

require "ublk/errors"
require "ublk/secret"

module UBLK
  class Secret
    # What a device's argument of type :secret is given: the name of a credential, or the path of a file. It may be the
    # secret itself, by mistake, so no message repeats it, but for the path of a file that is there.
    class Reference
      # As service/secret.h has them.
      CREDENTIAL = /\A[A-Za-z0-9_][\w.-]{0,254}\z/n
      PATH = %r{\A/[^\x00-\x20"'%\\\x7f]*\z}n

      # nil for what is neither.
      def self.parse(text)
        path = PATH.match?(text.b) && !text.b.split("/").intersect?(%w[. ..])
        new(text, path: path) if path || CREDENTIAL.match?(text.b)
      end

      def initialize(text, path:)
        @text = text
        @path = path
      end

      def path? = @path

      # In a unit. option: whose it is. directory: of the unit's credentials, nil if it has none.
      def loaded?(option, directory) = directory ? File.exist?(credential(option, directory)) : false

      # The secret. directory as above, nil outside of a unit, where a file is read as the caller. Raises ArgumentsError.
      def read(option, directory)
        return Secret.new(File.binread(credential(option, directory), SIZE_MAX + 1) || "", name: option) if directory
        return Secret.file(@text, name: option) if path?

        raise ArgumentsError, "option \"#{option}\": a credential comes from systemd; here it must be the path of a file"
      rescue ::ArgumentError => e
        raise ArgumentsError, "option \"#{option}\": #{e.message}"
      rescue SystemCallError => e
        raise ArgumentsError, "option \"#{option}\": the file can't be read: #{e.class.new.message}"
      end

      def inspect = "[reference to a secret]"

      private

      # One from a file has the option's name.
      def credential(option, directory) = File.join(directory, path? ? option.to_s : @text)
    end
  end
end
