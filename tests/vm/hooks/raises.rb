class Raises < UBLK::Target
  def initialize
    raise ArgumentError, "out of luck"
  end

  def read(_offset, length) = "\0" * length
end
