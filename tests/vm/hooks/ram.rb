# frozen_string_literal: true

# For measuring: a disk in one String, in both forms. After a flush the collector runs at every allocation, if it is to.
class Ram < UBLK::Target
  option :size, :bytes, required: true
  option :stress, :bool, default: false
  recovery :none

  def initialize(size:, stress:)
    super(size: size)
    @stress = stress
    @data = "\1".b * (size + 1) # a slice up to the end would share the String's memory
  end

  def read(offset, length) = @data.byteslice(offset, length)
  def write(offset, data) = (@data[offset, data.bytesize] = data) && data.bytesize
  def read_into(buffer, offset) = buffer.copy_from(@data, offset)
  def write_from(buffer, offset) = buffer.copy_to(@data, offset)
  def flush = GC.stress = @stress
end
