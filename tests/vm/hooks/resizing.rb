# A disk in a file whose resize does what the file `order` in the directory `orders` says.
class Resizing < UBLK::Target
  option :path, :path, required: true
  option :orders, :path, required: true
  recovery :reissue

  def initialize(path:, orders:)
    super(size: File.size(path))
    @file = File.open(path, "r+b")
    @order = File.join(orders, "order")
  end

  def read(offset, length) = @file.pread(length, offset)
  def write(offset, data) = @file.pwrite(data, offset)

  def resize(bytes)
    order = File.exist?(@order) ? File.read(@order).chomp : ""
    raise Errno::EDQUOT if order == "raise"

    sleep if order == "hang"
    Process.kill(:KILL, Process.pid) if order == "die-before"
    @file.truncate(bytes)
    Process.kill(:KILL, Process.pid) if order == "die-after"
    bytes
  end
end
