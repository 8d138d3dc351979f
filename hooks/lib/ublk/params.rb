# frozen_string_literal: true

require "etc"
require "ublk/abilities"
require "ublk/errors"

module UBLK
  # The shape of a disk, checked: what becomes the kernel's parameters. Immutable. All sizes are bytes.
  #
  # discard: whether the device offers discard or write_zeroes; `can_discard` and `can_write_zeroes` tell the two
  # apart.
  Params = Struct.new(:size, :logical_block_size, :physical_block_size, :max_io_bytes, :read_only, :rotational, :discard,
                      :can_discard, :can_write_zeroes, keyword_init: true) do
    # Raises ArgumentError, which names the value and its limits.
    def initialize(size:, logical_block_size: 512, physical_block_size: 4096, max_io_bytes: 524_288, read_only: false,
                   rotational: false, discard: true, can_discard: discard, can_write_zeroes: discard)
      super
      check_blocks
      check_size
      self.class.check_max_io(max_io_bytes)
      freeze
    end

    # Of a target's own methods.
    def self.from_target(target, max_io_bytes: 524_288)
      discard, write_zeroes = %i[discard write_zeroes].map { |operation| Abilities.supports?(target, operation) }
      new(size: target.size, logical_block_size: target.logical_block_size,
          physical_block_size: target.physical_block_size, max_io_bytes: max_io_bytes,
          read_only: target.read_only? ? true : false, rotational: target.rotational? ? true : false,
          discard: discard || write_zeroes, can_discard: discard, can_write_zeroes: write_zeroes)
    end

    # As the extension gives and takes them.
    def self.from_native(values)
      size, logical, physical, max_io, read_only, rotational, discard, write_zeroes = values
      new(size: size, logical_block_size: logical, physical_block_size: physical, max_io_bytes: max_io,
          read_only: read_only, rotational: rotational, discard: discard || write_zeroes, can_discard: discard,
          can_write_zeroes: write_zeroes)
    end

    # The same with other values.
    def with(**changes) = self.class.new(**to_h, **changes)

    def to_native
      [size, logical_block_size, physical_block_size, max_io_bytes, read_only, rotational, can_discard, can_write_zeroes]
    end

    # The kernel rounds it down to pages, and then refuses the parameters of a device that it made smaller.
    def self.check_max_io(bytes)
      page = Etc.sysconf(Etc::SC_PAGESIZE)
      limits = "a multiple of the page size, #{page}, up to 33554432 (32 MiB)"
      return bytes if bytes.is_a?(Integer) && bytes.between?(page, 32 << 20) && (bytes % page).zero?

      raise ArgumentError, "max_io_bytes must be #{limits}, not #{bytes.inspect[0, 80]}"
    end

    # What a client could tell apart: a list of sentences, empty if other is the same disk.
    def differences(other)
      %i[size logical_block_size physical_block_size read_only].filter_map do |name|
        "#{name} was #{self[name]} and now would be #{other[name]}" unless self[name] == other[name]
      end
    end

    private

    def check_blocks
      check_block(:logical_block_size, 512, 4096)
      check_block(:physical_block_size, logical_block_size, 256 << 20)
    end

    def check_block(name, min, max)
      bytes = self[name]
      return if bytes.is_a?(Integer) && bytes.between?(min, max) && (bytes & (bytes - 1)).zero?

      raise ArgumentError, "#{name} must be a power of two from #{min} to #{max}, not #{bytes.inspect[0, 80]}"
    end

    def check_size
      return if size.is_a?(Integer) && size.between?(1, (1 << 63) - 512) && (size % logical_block_size).zero?

      raise ArgumentError, "size must be a positive multiple of the logical block size, #{logical_block_size}, below " \
                           "2^63, not #{size.inspect[0, 80]}"
    end
  end
end
