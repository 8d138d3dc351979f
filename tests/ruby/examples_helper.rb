# frozen_string_literal: true

require_relative "test_helper"

# The scripts of examples/, loaded as a worker loads them.
module Examples
  # By others of them: a class is that of the file that defined it first.
  REQUIRED = %w[ram_disk file_disk remember].freeze

  @stacks = {}

  class << self
    def path(name) = File.join(ROOT, "examples/#{name}.rb")

    # A UBLK::Stack. Its classes are at the top level.
    def stack(name)
      REQUIRED.each { |other| @stacks[other] ||= load(other) }
      @stacks[name] ||= load(name)
    end

    # The disk that `key=value` words make.
    def disk(name, *words)
      given = words.map { |word| [*word.split("=", 2).insert(1, "s")] }
      stack(name).build(UBLK::Arguments.resolve(name, stack(name).options, given))
    end

    private

    def load(name)
      UBLK::Script.loaded_before = false
      script = UBLK::Script.new(path(name))
      script.stack(script.load)
    ensure
      $LOADED_FEATURES << path(name)
    end
  end
end
