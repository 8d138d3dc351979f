# frozen_string_literal: true

require "fcntl"

module UBLK
  module Check
    # A disk that fails below the hook: file methods that raise Errno::EIO while they are armed, and a record of
    # what was written and not synced. Of the thread that serves only; what goes round Ruby's methods is not seen.
    module Faults
      READS = %i[pread read sysread readpartial read_nonblock getbyte readbyte gets readline].freeze
      WRITES = %i[pwrite write syswrite write_nonblock].freeze
      SYNCS = %i[fsync fdatasync].freeze
      CLASS_METHODS = { read: %i[read], binread: %i[read], write: %i[write], binwrite: %i[write],
                        copy_stream: %i[read write] }.freeze
      SYNCHRONOUS = File::SYNC | File::DSYNC

      @armed = []
      @fired = 0
      @unsynced = {}

      class << self
        # The last method that failed, and where in the script it was called: for messages.
        attr_reader :fired, :method_name, :frames

        def install
          File.prepend(intercept(READS => :read, WRITES => :write, SYNCS => :sync))
          IO.singleton_class.prepend(intercept(CLASS_METHODS))
          Sys.singleton_class.prepend(intercept(%i[pread] => :read, %i[pwrite punch_hole zero_range] => :write))
          Buffer.prepend(intercept(%i[pread] => :read, %i[pwrite] => :write))
        end

        # kinds: :read, :write, :sync.
        def arm(kinds)
          @fired = 0
          @frames = []
          @armed = kinds
        end

        def meet(kinds, receiver, name)
          kind = Array(kinds).find { |k| @armed.include?(k) }
          return unless kind && Thread.current == Thread.main

          @fired += 1
          @method_name = name_of(receiver, name)
          @frames = caller_locations(2) if @frames.empty?
          raise Errno::EIO, "put there by --check"
        end

        def wrote(file, bytes)
          return unless bytes.is_a?(Integer) && bytes.positive? && (file.fcntl(Fcntl::F_GETFL) & SYNCHRONOUS).zero?

          @unsynced[key(file)] ||= [file.path.to_s, 0]
          @unsynced[key(file)][1] += bytes
        rescue SystemCallError, IOError
          nil
        end

        def synced(file) = @unsynced.delete(key(file))

        # [path, bytes] of the file that has most bytes without a sync, nil if none has.
        def unsynced = @unsynced.values.max_by(&:last)

        def forget = @unsynced.clear

        private

        def name_of(receiver, name)
          case receiver
          when Module then "#{receiver}.#{name}"
          when Buffer then "UBLK::Buffer##{name}"
          else "File##{name}"
          end
        end

        def key(file) = file.stat.then { |stat| [stat.dev, stat.ino] }

        # A module that asks `meet` before each of these methods; a Hash of names to kinds.
        def intercept(table)
          pairs = table.flat_map { |names, kinds| Array(names).map { |name| [name, kinds] } }
          Module.new do
            pairs.each do |name, kinds|
              define_method(name) do |*arguments, **keywords, &block|
                Faults.meet(kinds, self, name)
                result = super(*arguments, **keywords, &block)
                file = is_a?(File) ? self : arguments.first
                Faults.wrote(file, result) if kinds == :write && file.is_a?(File)
                Faults.synced(self) if kinds == :sync
                result
              end
            end
          end
        end
      end
    end

    class << self
      # Before the hook is loaded.
      def watch_files(_target) = Faults.install

      def arm(_target, *kinds) = Faults.arm(kinds.map(&:to_sym))

      # What was met since `arm`: how often, by which method, where in the script, and whether one of the methods
      # on the way has an `ensure` with a `return` in it.
      def disarm(target)
        fired = Faults.fired
        frames = fired.zero? ? [] : Faults.frames.select { |frame| script?(frame) }
        Faults.arm([])
        { fired: fired, method: Faults.method_name, at: frames.first && "#{frames.first.path}:#{frames.first.lineno}",
          ensure: frames.map(&:base_label).uniq.find { |name| ensure_returns?(target, name) } }
      end

      # { path:, bytes: } of the file with the most bytes written and not synced; null if there is none.
      def unsynced(_target) = Faults.unsynced&.then { |path, bytes| { path: path, bytes: bytes } }

      def forget_unsynced(_target) = Faults.forget && nil

      private

      def script?(frame) = frame.path == Runtime.instance_variable_get(:@path)

      # A `return` (or `break`) there ends the exception that is on its way: in byte code, "throw 1" or "throw 2"
      # inside the part called "ensure in".
      def ensure_returns?(target, name)
        code = RubyVM::InstructionSequence.of(target.method(name)) or return false
        code.disasm.split("== disasm: ").any? { |part| part.include?("ISeq:ensure in") && part.match?(/^\|.*\bthrow\s+[12]\b/) }
      rescue NameError
        false
      end
    end
  end
end
