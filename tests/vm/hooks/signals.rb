# On its first read it sends signals, and writes down what came of them.
class Signals < UBLK::Target
  option :victim, :integer, required: true
  option :result, :path, required: true

  def initialize(victim:, result:)
    super(size: 1 << 20)
    @victim = victim
    @result = result
  end

  def read(_offset, length)
    File.write(@result, "other #{try(@victim, 0)}, itself #{try($$, 0)}, child #{try(fork { sleep }, :KILL)}") unless File.exist?(@result)
    "\0" * length
  end

  def write(_offset, data) = data.bytesize

  private

  def try(pid, signal)
    Process.kill(signal, pid)
    "ok"
  rescue SystemCallError => e
    e.class.name.delete_prefix("Errno::")
  end
end
