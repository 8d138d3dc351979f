# frozen_string_literal: true

require "ublk/layer"

module UBLK
  # A layer that decides before each operation. A policy is one method:
  #
  #     class WormDisk < UBLK::Policy        # what was written once stays
  #       def before(op, offset, _length) = op == :write && offset < 1 << 30 ? Errno::EPERM : nil
  #     end
  #     use WormDisk
  #     run FileDisk
  class Policy < Layer
    # op: :read, :write, :flush, :discard or :write_zeroes; offset, length: bytes, both 0 for a flush. Returns
    # nil to go on; an errno to refuse, as a number (1 … 4095, of either sign) or a class of Errno; or a
    # UBLK::Target, which then does this operation in place of the one below. It may raise as well.
    def before(_op, _offset, _length) = nil

    def read(offset, length) = decide(:read, offset, length) { |target| target.read(offset, length) }
    def write(offset, data) = decide(:write, offset, data.bytesize) { |target| target.write(offset, data) }
    def resize(bytes) = @target.resize(bytes)
    def read_into(buffer, offset) = decide(:read, offset, buffer.size) { |target| target.read_into(buffer, offset) }
    def write_from(buffer, offset) = decide(:write, offset, buffer.size) { |target| target.write_from(buffer, offset) }
    def flush = decide(:flush, 0, 0, &:flush)
    def discard(offset, length) = decide(:discard, offset, length) { |target| target.discard(offset, length) }

    def write_zeroes(offset, length, unmap: true)
      decide(:write_zeroes, offset, length) { |target| zero(target, offset, length, unmap) }
    end

    private

    def decide(op, offset, length)
      verdict = before(op, offset, length)
      case verdict
      when nil then yield @target
      when Target then yield other(verdict)
      else -errno(verdict)
      end
    end

    # Asked for again and again, as a rule.
    def other(target)
      @others ||= {}.compare_by_identity
      @others.shift if @others.size >= 16
      @others[target] ||= even(target)
    end

    # A number, or a class of Errno.
    def errno(verdict)
      number = verdict.is_a?(Class) && verdict < SystemCallError ? verdict::Errno : verdict
      return number.abs if number.is_a?(Integer) && number.abs.between?(1, 4095)

      raise ContractError, "before must return nil, an errno or a UBLK::Target, and returned " \
                           "#{verdict.inspect[0, 80]}"
    end
  end
end
