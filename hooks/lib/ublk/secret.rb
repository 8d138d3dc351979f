# frozen_string_literal: true

require "ublk/errors"

module UBLK
  # Bytes that nobody is to see: what an option of type :secret arrives as. It is an object and no String so that it
  # can't get into a message, a log or a dump by accident: only `value` gives the bytes away.
  #
  # A program of one's own makes one of bytes that it has, or of a file: `UBLK::Secret.file("/etc/app/key")`.
  class Secret
    # Bytes.
    SIZE_MAX = 64 * 1024

    class << self
      # The bytes of a file that nobody but the caller can read, exactly as they are: a newline at its end belongs to
      # them. name: for messages. Raises ArgumentError for a file that others can read, and that is empty or longer
      # than SIZE_MAX; SystemCallError.
      def file(path, name: File.basename(path))
        File.open(path, File::RDONLY | File::NONBLOCK | File::BINARY) do |file|
          check_private(path, file.stat)
          new(file.read(SIZE_MAX + 1) || "", name: name)
        end
      end

      private

      def check_private(path, stat)
        raise ArgumentError, "#{path} is not a regular file" unless stat.file?
        return if stat.owned? && (stat.mode & 0o077).zero?

        user = Process.euid.zero? ? "root" : "$USER"
        raise ArgumentError, "others can read or change #{path}. First: chown #{user}: #{path} && chmod 600 #{path}"
      end
    end

    # A String of the exact bytes, binary and frozen.
    attr_reader :value

    # bytes: a String, 1 to SIZE_MAX bytes. name: for messages. Raises ArgumentError.
    def initialize(bytes, name: nil)
      raise ArgumentError, "a secret is a String, not an object of class #{bytes.class}" unless bytes.is_a?(String)
      unless bytes.bytesize.between?(1, SIZE_MAX)
        raise ArgumentError, "a secret has 1 to #{SIZE_MAX} bytes, not #{bytes.bytesize}"
      end

      @name = name&.to_s
      @value = bytes.b.freeze
      freeze
      Concealment.add(self)
    end

    def bytesize = @value.bytesize

    # Whether the other one is a secret of the same bytes. Takes as long whichever byte differs.
    def ==(other)
      return false unless other.is_a?(Secret) && other.bytesize == bytesize

      @value.each_byte.zip(other.value.each_byte).reduce(0) { |difference, (a, b)| difference | (a ^ b) }.zero?
    end

    # "[secret key]"
    def to_s = @name ? "[secret #{@name}]" : "[secret]"
    alias inspect to_s

    # Neither Marshal nor YAML.
    def marshal_dump(*) = raise(TypeError, "a secret can't be dumped")
    alias encode_with marshal_dump
  end
end

require "ublk/secret/concealment"
