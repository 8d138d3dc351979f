require "fiddle"

# A disk in memory whose process ends before a read at 4096, once, if there is a file ORDER: with the exit status in it, and as a C
# extension may do it, past whatever Ruby has in between.
class Leaving < UBLK::Target
  option :order, :path, required: true
  recovery :reissue

  def initialize(order:)
    super(size: 1 << 20)
    @order = order
    @memory = UBLK::Memory.new(1 << 20)
  end

  def read(offset, length)
    leave if offset == 4096 && File.exist?(@order)
    @memory.read(offset, length)
  end

  def write(offset, data) = @memory.write(offset, data)

  private

  def leave
    status = Integer(File.read(@order))
    File.unlink(@order)
    Fiddle::Function.new(Fiddle::Handle::DEFAULT["_exit"], [Fiddle::TYPE_INT], Fiddle::TYPE_VOID).call(status)
  end
end
