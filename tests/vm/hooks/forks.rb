# The first read at 4096 leaves processes behind that ignore SIGTERM and hold on to whatever they have: a child, a child of a
# child that has a session of its own, and one that the C library knows nothing of, so that nothing was closed in it.
class Forks < UBLK::Target
  option :path, :path, required: true
  recovery :reissue

  FORK = 57 # the system call's number on amd64

  def initialize(path:)
    @file = File.open(path, "r+b")
    super(size: @file.size)
  end

  def read(offset, length)
    leave if offset == 4096 && !@left
    @file.pread(length, offset)
  end

  def write(offset, data) = @file.pwrite(data, offset)

  private

  def leave
    @left = true
    fork { stay }
    fork { Process.setsid && fork { stay } }
    stay if syscall(FORK).zero?
  end

  def stay
    %w[TERM INT HUP].each { |signal| trap(signal, "IGNORE") }
    loop { sleep }
  end
end
