# Blocks 0 to 3 of 4 KiB are answered wrongly, each in its own way; the rest with zeroes.
class WrongReads < UBLK::Target
  recovery :none

  def initialize = super(size: 1 << 20)

  def read(offset, length)
    case offset / 4096
    when 0 then "\0" * (length - 1)
    when 1 then "\0" * (length + 1)
    when 2 then nil
    when 3 then length
    else "\0" * length
    end
  end

  def write(_offset, data) = data.bytesize
end
