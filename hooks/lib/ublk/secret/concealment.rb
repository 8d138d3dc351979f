# frozen_string_literal: true

module UBLK
  class Secret
    # Keeps the bytes of every secret of this process out of what it says of errors. They are known for the life of the
    # process: a target that keeps nothing but `key.value` still raises with it.
    module Concealment
      # Less than this would be found by chance.
      SIZE_MIN = 4
      LINE_MIN = 8

      @known = []

      class << self
        def add(secret)
          @known = [*@known, *forms(secret.value).map { |form| [form, secret.to_s.b] }].uniq.sort_by { |form, _| -form.bytesize }
        end

        def any? = !@known.empty?

        # The text with "[secret key]" in place of what a secret looks like: its bytes, as they are and as Ruby shows
        # them, in hexadecimal, Base64 and an URL. Never the same object if anything was replaced.
        def apply(text)
          bytes = text.b
          found = @known.select { |form, _| bytes.include?(form) }
          return text if found.empty?

          found.each { |form, name| bytes = bytes.gsub(form) { name } }
          bytes.force_encoding(text.encoding)
        end

        private

        # Without its newline, as most use it; and line by line what has several, Base64 included, since Ruby prints
        # messages so.
        def forms(value)
          values = [value, value.strip].uniq.select { |bytes| bytes.bytesize >= SIZE_MIN }
          values.flat_map { |bytes| spellings(bytes) + lines(bytes) + lines([bytes].pack("m")) }
        end

        def lines(bytes)
          parts = bytes.split("\n")
          parts.one? ? [] : parts.map { |line| line.strip.b }.select { |line| line.bytesize >= LINE_MIN }
        end

        def spellings(bytes)
          hexadecimal = bytes.unpack1("H*")
          base64 = [bytes].pack("m0")
          url_safe = base64.tr("+/", "-_")
          [bytes, bytes.inspect[1..-2].b, bytes.dump[1..-2].b, hexadecimal, hexadecimal.upcase, base64, url_safe,
           base64.delete("="), url_safe.delete("="),
           bytes.gsub(/[^\w.~-]/n) { |byte| format("%%%02X", byte.ord) }].map(&:b).uniq
        end
      end
    end
  end
end
