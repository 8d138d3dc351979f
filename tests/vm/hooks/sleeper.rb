# A disk that takes its time to be there.
class Sleeper < UBLK::Target
  option :seconds, :integer, required: true

  def initialize(seconds:)
    super(size: 1 << 20)
    sleep seconds
  end

  def read(_offset, length) = "\0" * length
  def read_only? = true
end
