# frozen_string_literal: true

require "delegate"
require "ublk/secret"

module UBLK
  class Secret
    # Stands in front of $stderr in a worker that has secrets: what Ruby itself says of an exception, in a thread of the
    # hook for instance, comes this way.
    class Output < SimpleDelegator
      def self.install
        $stderr = new($stderr) unless $stderr.is_a?(self)
      end

      def write(*texts) = super(*texts.map { |text| Concealment.apply(text.to_s) })

      def print(*values) = write(*values) && nil
      def <<(value) = write(value) && self
      def printf(format, *values) = print(format(format, *values))

      def puts(*values)
        lines = values.flatten.map { |value| value.to_s.end_with?("\n") ? value.to_s : "#{value}\n" }
        write(*(lines.empty? ? ["\n"] : lines)) && nil
      end
    end
  end
end
