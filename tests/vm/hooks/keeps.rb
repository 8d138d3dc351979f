# A disk with state beside it: how often it was started, and whatever an order asks for.
class Keeps < UBLK::Target
  option :fail, :bool, default: false
  option :hostile, :bool, default: false
  recovery :reissue

  def initialize(fail:, hostile:)
    super(size: 1 << 20)
    File.open(File.join(state_directory, "starts"), "a") { |file| file.puts Process.pid }
    make_trouble if hostile
    raise "told to" if fail
  end

  def read(_offset, length) = "\0" * length
  def write(_offset, data) = data.bytesize

  private

  def make_trouble
    Dir.chdir(state_directory) do
      File.symlink("/srv/precious", "link")
      File.symlink("/", "root")
      File.mkfifo("pipe")
      make_deep
      Dir.mkdir("locked", 0)
      fork { race } # it is in the unit's control group, and dies with the worker
    end
  end

  def make_deep
    900.times do # more than a path can say
      Dir.mkdir("deep")
      Dir.chdir("deep")
      File.symlink("/srv/precious", "link")
    end
    Dir.chdir(state_directory)
  end

  def race
    $stdout.reopen(File::NULL)
    loop do
      File.write("raced-#{rand(100)}", "x")
    rescue SystemCallError
      nil # it was moved away
    end
  end
end
