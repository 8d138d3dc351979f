# frozen_string_literal: true

# A disk that holds nothing: reads are zeroes, writes are dropped. For measuring what everything around a hook
# costs.
class NullDisk < UBLK::Target
  option :size, :bytes, required: true, doc: "size of the disk"
  recovery :reissue # nothing can get lost

  # For `ublkctl check`: that nothing can be read back is no fault here.
  def self.sink? = true

  def initialize(size:)
    super
    @zeroes = {}
    @source = zero_bytes(512 * 1024)
  end

  # The same frozen Strings again and again: no request makes one, however many lengths there are they share
  # their bytes.
  def read(_offset, length)
    @zeroes[length] ||= slice(length)
  end

  def write(_offset, data) = data.bytesize

  def read_into(buffer, _offset) = buffer.fill

  def write_from(buffer, _offset) = buffer.size

  def discard(_offset, _length) = 0

  def write_zeroes(_offset, _length) = 0

  def resize(bytes) = bytes

  private

  def slice(length)
    @source = zero_bytes(length) if length > @source.bytesize
    @source.byteslice(-length, length).freeze
  end

  def zero_bytes(length) = ("\0".b * length).freeze
end
