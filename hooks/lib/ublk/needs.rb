# frozen_string_literal: true

require "ublk/errors"
require "ublk/secret/reference"

module UBLK
  # What a target and its layers need, held against what the unit that serves them gives.
  module Needs
    # Of one device, as service/secret.h has it.
    SECRETS_MAX = 8

    class << self
      # Raises NeedsError, before anything of the target is built. device, hook: names. values: of Arguments.resolve.
      # grants: what the unit gives, {network:, jit:, credentials:, secrets:}, the last two being the directory of its
      # credentials and the names of the arguments that the service knows to be secrets. Without credentials: of a unit
      # that is not this process', and has what it is known to need. Raises ArgumentsError for too many secrets.
      def check(device, hook, stack, values, grants)
        secrets = values.select { |_, value| value.is_a?(Secret::Reference) }
        raise ArgumentsError, "the hook #{hook} is given more than #{SECRETS_MAX} secrets" if secrets.size > SECRETS_MAX

        missing = declared(stack, grants) + secrets.filter_map { |name, reference| missing(name, reference, grants) }
        return if missing.empty?

        raise NeedsError.new("the unit of #{device} is without what the hook #{hook} needs (#{missing.join(", ")}) as yet: " \
                             "\"ublkctl restart #{device}\" gives it that", missing)
      end

      private

      def declared(stack, grants)
        %w[network jit].select { |need| stack.public_send(need) && !grants[need.to_sym] }
      end

      # A credential that has the option's name by chance is not that of its file.
      def missing(name, reference, grants)
        known = grants[:secrets].include?(name.to_s)
        return ("secret:#{name}" unless known) unless grants.key?(:credentials)

        loaded = (known || !reference.path?) && reference.loaded?(name, grants[:credentials])
        if !loaded then "secret:#{name}"
        elsif !known then "loaded:#{name}"
        end
      end
    end
  end
end
