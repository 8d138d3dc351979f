# Ends its process while it loads.
class Dies < UBLK::Target
  option :way, :string, required: true

  def initialize(way:)
    case way
    when "exit!" then exit!(0)
    when "exec" then exec "/bin/true"
    when "sleep" then sleep
    end
    super(size: 1 << 20)
  end

  def read(_offset, length) = "\0" * length
  def write(_offset, data) = data.bytesize
end
