# frozen_string_literal: true

require "ublk/errors"
require "ublk/secret"

module UBLK
  # What the worker says of an exception. Nothing here trusts the exception's own methods, and none of it has a secret in it.
  module Description
    ERRNO = SystemCallError.instance_method(:errno)
    CLASS = Kernel.instance_method(:class)
    NAME = Module.instance_method(:to_s)
    BACKTRACE = Exception.instance_method(:backtrace)
    MESSAGE_MAX = 1000
    FRAMES = 8
    # Of a thread; with FRAME_MAX they fit into CALLS_MAX_BACKTRACE of service/calls.h.
    THREAD_FRAMES = 10
    THREAD_BACKTRACE = Thread.instance_method(:backtrace)
    FRAME_MAX = 200
    ERRNO_MAX = 4095
    FRAME = /\A(.+?):(\d+)(?::|\z)/

    # Ours say what to do in full sentences; their class would add nothing.
    OWN_KINDS = { ArgumentsError => "arguments", NoHookError => "no-hook", HookError => "hook",
                  NeedsError => "needs", MemoryError => "hook" }.freeze

    class << self
      # A FailureKind of service/failure.h.
      def kind(error) = OWN_KINDS[CLASS.bind_call(error)] || "hook"

      # The errno that a client sees; 1 to 4095.
      def errno(error)
        case error
        when ArgumentsError then Errno::EINVAL::Errno
        when NoHookError then Errno::ENOENT::Errno
        when NeedsError then Errno::EPERM::Errno
        when HookTimeout then Errno::ETIMEDOUT::Errno
        when SystemCallError then valid_errno(ERRNO.bind_call(error))
        else timeout?(error) ? Errno::ETIMEDOUT::Errno : Errno::EIO::Errno
        end
      end

      # Whether who raised it meant an errno for the client, and made no mistake.
      def answer?(error) = error.is_a?(SystemCallError) || timeout?(error)

      # nil for ours.
      def class_name(error)
        klass = CLASS.bind_call(error)
        clean(NAME.bind_call(klass).sub(/\A#<Module:0x\h+>::/, ""))[0, 120] unless OWN_KINDS.key?(klass)
      end

      # What the unit lacks, with spaces between; nil for any other error.
      def needs(error) = CLASS.bind_call(error) == NeedsError ? error.needs.join(" ") : nil

      # Never empty, UTF-8, one C string.
      def message(error)
        text = clean(String(error.message))
        text = text.sub(FRAME, "").strip if error.is_a?(SyntaxError) # the origin has it
        text.empty? ? "(no message)" : text
      rescue Exception => e # rubocop:disable Lint/RescueException: an exception's message may do anything
        "(its message can't be had: #{class_name(e)})"
      end

      # [file, line] of the innermost frame that is in the script; nil if none is.
      def origin(error, script)
        return unless script

        at = syntax_error_at(error) if error.is_a?(SyntaxError)
        at || innermost(BACKTRACE.bind_call(error), script)
      rescue StandardError
        nil
      end

      # The innermost frames, a line each; nil if there are none.
      def backtrace(error)
        frames = Array(BACKTRACE.bind_call(error)).first(FRAMES)
        frames.map { |frame| "    from #{line(frame)}" }.join("\n") unless frames.empty?
      rescue StandardError
        nil
      end

      # The innermost frames of a thread, a line each; nil if it has ended.
      def trace(thread)
        THREAD_BACKTRACE.bind_call(thread, 0, THREAD_FRAMES)&.map { |frame| line(frame) }&.join("\n")
      end

      private

      def line(frame) = clean(frame).delete("\n").byteslice(0, FRAME_MAX).scrub("")

      def valid_errno(number)
        number.is_a?(Integer) && number.between?(1, ERRNO_MAX) ? number : Errno::EIO::Errno
      end

      def timeout?(error)
        defined?(::Timeout::Error) && error.is_a?(::Timeout::Error)
      end

      # Text of no declared encoding is most likely UTF-8. Secrets go before the text is made such, and what only becomes
      # one by that goes after it.
      def clean(text)
        text = Secret::Concealment.apply(text)
        text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
        text = text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
        Secret::Concealment.apply(text.scrub("?").delete("\0")).byteslice(0, MESSAGE_MAX).scrub("")
      end

      def syntax_error_at(error)
        match = FRAME.match(error.message)
        [match[1], match[2].to_i] if match && File.exist?(match[1])
      end

      def innermost(backtrace, script)
        Array(backtrace).each do |frame|
          match = FRAME.match(frame)
          return [script, match[2].to_i] if match && match[1] == script
        end
        nil
      end
    end
  end
end
