# The file hook behind gates. While there is a file GATES/load.before it does not finish loading, while there is
# GATES/read.before, a read at 4096 is not answered: the file is renamed to load.at or read.at, and once that is gone it
# goes on. While there is GATES/broken, it does not load at all; while there is GATES/poison, a read at 4096 ends the process.
class Gated < UBLK::Target
  option :path, :path, required: true
  option :gates, :path, required: true
  recovery :reissue

  def initialize(path:, gates:)
    @gates = gates
    raise "broken" if File.exist?(File.join(gates, "broken"))

    pass "load"
    @file = File.open(path, "r+b")
    super(size: @file.size)
  end

  def read(offset, length)
    if offset == 4096
      pass "read"
      exit!(0) if File.exist?(File.join(@gates, "poison"))
    end
    @file.pread(length, offset)
  end

  def write(offset, data) = @file.pwrite(data, offset)
  def flush = @file.fdatasync

  private

  def pass(gate)
    at = File.join(@gates, "#{gate}.at")
    File.rename(File.join(@gates, "#{gate}.before"), at)
    sleep 0.005 while File.exist?(at)
  rescue Errno::ENOENT
    nil # it is open
  end
end
