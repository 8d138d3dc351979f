# frozen_string_literal: true

# A disk that can't be written, of blocks of 4096.
class ReadOnly < UBLK::Target
  def initialize = super(size: 1 << 20)
  def read(offset, length) = (offset / 8...(offset + length) / 8).to_a.pack("Q*")
  def read_only? = true
  def logical_block_size = 4096
end
