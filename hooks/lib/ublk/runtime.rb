# frozen_string_literal: true

require "ublk"
require "ublk/abilities"
require "ublk/arguments"
require "ublk/code"
require "ublk/description"
require "ublk/guard"
require "ublk/needs"
require "ublk/script"

module UBLK
  # What the worker's C code calls.
  module Runtime
    UINT32_MAX = (1 << 32) - 1
    UINT64_MAX = (1 << 64) - 1

    class << self
      # Loads the script and builds the target. arguments: [[name, D-Bus type, value as text], …]. recovery:
      # what the user asks for, "default" for what the class declares. grants: see Needs; nil where there is no unit.
      # state, state_owner: see UBLK.serve_device. capture, code: of Code.prepare. data_path: see Abilities.forms. Returns a
      # Hash with the target and its geometry.
      def load(name:, path:, class_name:, device:, arguments:, recovery:, read_only:, grants: nil, state: nil, state_owner: nil,
               capture: false, code: nil, data_path: nil)
        Code.prepare(code, capture: capture)
        UBLK.serve_device(device, read_only: read_only, state: state, state_owner: state_owner)
        stack, values, recovery = load_script(name, path, class_name, device, arguments, recovery, grants)
        @target = target = stack.build(read_secrets(values, grants))
        check_methods(target, stack.target_class, read_only)
        forms = Abilities.forms(target, data_path, writable: !read_only && !target.read_only?)
        facts(target, recovery, forms).merge(takes_size: stack.options.key?(:size)).tap { settle }
      end

      # The same as far as nothing is built: loads the script and checks the arguments. grants: of another process.
      def examine(name:, path:, class_name:, device:, arguments:, recovery:, read_only:, grants: nil, **)
        UBLK.serve_device(device, read_only: read_only)
        load_script(name, path, class_name, device, arguments, recovery, grants&.except(:credentials))
        nil
      end

      # [kind, errno, class, message, file, line, backtrace, needs, answer] of an exception; method: of the target, if
      # one was running. In C it becomes a Failure.
      def describe(error, method)
        origin = Description.origin(error, @path)
        origin ||= method_origin(method) if error.is_a?(ContractError)
        origin ||= [@path, nil]
        [Description.kind(error), Description.errno(error),
         Description.class_name(error), Description.message(error), *origin, Description.backtrace(error),
         Description.needs(error), Description.answer?(error)]
      end

      # Makes the disk bytes long; returns its new size, or what refuses that.
      def resize(target, bytes)
        answer = target.resize(bytes)
        return answer if answer.is_a?(Integer) && answer.negative?
        raise ContractError, "resize must return the new size, and returned #{answer.inspect[0, 80]}" unless answer.is_a?(Integer)

        become(target, answer)
      end

      # Where a thread is: its innermost frames, a line each; nil if it is nowhere.
      def trace(thread) = Description.trace(thread)

      # What is raised in a method that takes too long.
      def hook_timeout(message) = HookTimeout.new(message)

      private

      def load_script(name, path, class_name, device, arguments, recovery, grants)
        $stdout.sync = true # what a hook prints goes to the journal at once
        @path = path
        Guard.install
        script = Script.new(path)
        stack = script.stack(script.load(class_name))
        values = Arguments.resolve(name, stack.options, arguments)
        recovery = resolve_recovery(name, stack.recovery, recovery)
        Needs.check(device, name, stack, values, grants) if grants
        [stack, values, recovery]
      end

      def read_secrets(values, grants)
        values = Arguments.read_secrets(values, grants && grants[:credentials])
        return values unless Secret::Concealment.any?

        require "ublk/secret/output"
        Secret::Output.install
        values
      end

      # A device can be made stricter than its hook, never laxer. A hook without recovery keeps its data in its
      # process: to recover its device would put an empty disk, or one of another age, under a file system. One that
      # does not say :reissue may do harm when it is given a request twice.
      def resolve_recovery(name, declared, asked)
        declared = declared.to_s.tr("_", "-")
        return declared if asked == "default"

        reason = "its data ends with its process" if declared == "none" && asked != "none"
        reason ||= "a request may not be given to it twice" if declared != "reissue" && asked == "reissue"
        return asked unless reason

        raise ArgumentsError, "recovery: the hook #{name} declares #{declared}, since #{reason}; it can't be #{asked}"
      end

      def check_methods(target, target_class, read_only)
        name = Script.name_of(target_class)
        raise HookError, "#{name} does not define read(offset, length)" unless Abilities.supports?(target, :read)
        return if read_only || target.read_only? || Abilities.supports?(target, :write)

        raise HookError, "#{name} does not define write(offset, data); " \
                         "a disk that can't be written says `def read_only? = true`"
      end

      def facts(target, recovery, forms)
        { **forms, target: target, recovery: recovery,
          size: integer(target, :size, UINT64_MAX),
          logical_block_size: integer(target, :logical_block_size, UINT32_MAX),
          physical_block_size: integer(target, :physical_block_size, UINT32_MAX),
          read_only: target.read_only?, rotational: target.rotational?,
          can_discard: Abilities.supports?(target, :discard),
          can_write_zeroes: Abilities.supports?(target, :write_zeroes),
          can_resize: Abilities.supports?(target, :resize),
          takes_unmap: Abilities.takes_unmap?(target) }
      end

      # The target below all layers has the size, unless it defines a method for that.
      def become(target, bytes)
        below = target
        below = below.target while Abilities.layer?(below)
        below.send(:become, bytes)
        size = target.size
        raise ContractError, "resize returned #{bytes}, but size is #{size.inspect[0, 80]}" unless size == bytes

        bytes
      rescue ArgumentError => e
        raise ContractError, "resize returned #{bytes}: #{e.message}"
      end

      def integer(target, name, max)
        value = target.public_send(name)
        return value if value.is_a?(Integer) && value.between?(0, max)

        hint = value.nil? && name == :size ? " (does initialize call super(size: …)?)" : ""
        raise HookError, "#{name} must be an Integer from 0 to #{max}, and is #{value.inspect[0, 80]}#{hint}"
      end

      # What loading left behind is collected now and not in front of the first request.
      def settle
        GC.start
        Process.warmup if Process.respond_to?(:warmup)
      end

      # A wrong return value has no backtrace: the method is where to look, below all layers.
      def method_origin(name)
        target = @target
        target = target.target while Abilities.layer?(target)
        name && target && Abilities::METHOD.bind_call(target, name).source_location
      rescue NameError
        nil
      end
    end
  end
end
