# frozen_string_literal: true

require "ublk/secret/reference"

module UBLK
  # The types an option can have, and how each is read from the text of a D-Bus string or from a typed D-Bus
  # value.
  module Types
    # wants: for messages. parse: from text, nil if it isn't one. dbus: the D-Bus types taken besides `s`.
    # accept: whether a Ruby value is one. from_dbus: from a value of such a D-Bus type; the identity if nil.
    Type = Struct.new(:wants, :parse, :dbus, :accept, :from_dbus, keyword_init: true)

    INTEGERS = "ynqiuxt"
    BYTES_MAX = (1 << 64) - 1
    SUFFIXES = %w[K M G T P E].freeze
    SECONDS = { "us" => 1e-6, "ms" => 1e-3, "s" => 1.0, "sec" => 1.0, "" => 1.0, "m" => 60.0, "min" => 60.0,
                "h" => 3600.0, "d" => 86_400.0 }.freeze

    class << self
      # "4096", "256M", "1GiB" → bytes. K, M, … are powers of 1024 as in every tool that makes disks.
      def parse_bytes(text)
        match = /\A(\d{1,20}) ?(?:([KMGTPE])(?:iB)?)?\z/i.match(text) or return
        power = match[2] ? SUFFIXES.index(match[2].upcase) + 1 : 0
        bytes = match[1].to_i << (10 * power)
        bytes if bytes <= BYTES_MAX
      end

      # "250ms", "1.5", "5min" → seconds as a Float.
      def parse_duration(text)
        match = /\A(\d{1,15}(?:\.\d{1,15})?) ?([a-z]*)\z/.match(text) or return
        unit = SECONDS[match[2]]
        match[1].to_f * unit if unit
      end

      def parse_float(text)
        value = Float(text, exception: false)
        value if value&.finite?
      end

      def parse_bool(text)
        { "yes" => true, "true" => true, "on" => true, "1" => true,
          "no" => false, "false" => false, "off" => false, "0" => false }[text]
      end

      # A service has no current directory that anybody could mean.
      def parse_path(text)
        text if text.start_with?("/") && !text.include?("\0")
      end

      def bytes?(value) = value.is_a?(Integer) && value.between?(0, BYTES_MAX)
      def seconds?(value) = value.is_a?(Numeric) && value.real? && value.finite? && value >= 0
      def number?(value) = value.is_a?(Float) && value.finite?
    end

    TABLE = {
      string: Type.new(wants: "a string", dbus: "", parse: ->(text) { text }, accept: String.method(:===)),
      integer: Type.new(wants: "an integer", dbus: INTEGERS, accept: Integer.method(:===),
                        parse: ->(text) { text.to_i if text.match?(/\A[+-]?\d{1,20}\z/) }),
      bytes: Type.new(wants: "a number of bytes, such as 1048576, 256M or 1GiB", dbus: INTEGERS,
                      parse: method(:parse_bytes), accept: method(:bytes?)),
      bool: Type.new(wants: "yes or no", dbus: "b", parse: method(:parse_bool),
                     accept: ->(value) { [true, false].include?(value) }),
      float: Type.new(wants: "a number", dbus: "d", parse: method(:parse_float), accept: method(:number?)),
      duration: Type.new(wants: "a duration, such as 250ms, 1.5s or 5min", dbus: "dt", parse: method(:parse_duration),
                         accept: method(:seconds?), from_dbus: ->(value, type) { type == "t" ? value / 1e6 : value }),
      path: Type.new(wants: "an absolute path", dbus: "", parse: method(:parse_path),
                     accept: ->(value) { value.is_a?(String) && !value.include?("\0") }),
      secret: Type.new(wants: "the name of a credential, or the absolute path of a file with the secret in it (a path without " \
                              "spaces, quotes, % and backslashes)", dbus: "",
                       parse: ->(text) { Secret::Reference.parse(text) },
                       accept: ->(value) { value.is_a?(Secret) || value.is_a?(Secret::Reference) })
    }.freeze

    # For messages: "s, y, n, q" as a person reads it.
    def self.dbus_names(type)
      integers = type.dbus == INTEGERS
      ["s", *(integers ? ["any integer type"] : type.dbus.chars)].join(", ")
    end
  end
end
