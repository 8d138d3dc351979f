# frozen_string_literal: true

require "ublk/errors"

module UBLK
  # What a target and its layers declare to need, held against what the unit that serves them gives.
  module Needs
    # Raises NeedsError, before anything of the target is built. device, hook: names. grants: {network:, jit:}; nil
    # where there is no unit.
    def self.check(device, hook, stack, grants)
      return unless grants

      missing = %i[network jit].select { |need| stack.public_send(need) && !grants[need] }
      return if missing.empty?

      raise NeedsError.new("the hook #{hook} declares #{missing.map { |need| "`#{need} true`" }.join(" and ")}, which its " \
                           "unit is without as yet: \"ublkctl restart #{device}\" makes it so", missing.map(&:to_s))
    end
  end
end
