# frozen_string_literal: true

require "fcntl"
require "socket"

# Tries what a worker must not be able to do, while it serves, and says what came of each: see tests/vm/sandbox. The numbers are
# x86-64's system calls.
class Prober < UBLK::Target
  option :pid, :integer, required: true, doc: "of another worker"
  option :other, :integer, required: true, doc: "the id of its device"
  option :own, :integer, required: true, doc: "of this device"

  MMAP = 9
  MPROTECT = 10
  PTRACE = 101
  PERSONALITY = 135
  SCHED_SETSCHEDULER = 144
  PIVOT_ROOT = 155
  MOUNT = 165
  SETHOSTNAME = 170
  INIT_MODULE = 175
  CLOCK_SETTIME = 227
  ADD_KEY = 248
  UNSHARE = 272
  PROCESS_VM_READV = 310
  BPF = 321
  PIDFD_OPEN = 434
  PIDFD_GETFD = 438

  def initialize(pid:, other:, own:)
    @pid = pid
    @other = other
    @own = own
    super(size: 1 << 20)
  end

  def read_only? = true
  def read(offset, length) = offset.zero? ? report.b.ljust(length, "\0") : "\0".b * length

  private

  def report
    @lines = []
    memory
    files
    processes
    privileges
    sockets
    devices
    "#{@lines.join("\n")}\n"
  end

  # What can be done, or the errno's name.
  def try(name)
    result = yield
    @lines << "#{name}: #{result.is_a?(String) ? result : "done"}"
  rescue SystemCallError, SocketError => e
    @lines << "#{name}: #{e.class.name.delete_prefix("Errno::")}"
  end

  # Kernel#syscall warns each time, and takes no String with a NUL in it.
  def call(number, *arguments)
    old = $VERBOSE
    $VERBOSE = nil
    syscall(number, *arguments.map { |a| a.is_a?(String) ? address(a) : a })
  ensure
    $VERBOSE = old
  end

  # Of its bytes, which are followed by a NUL; good as long as the String is.
  def address(string) = [string].pack("p").unpack1("Q")

  def memory
    try("memory") { call(MMAP, 0, 4096, 3, 0x22, -1, 0) }
    try("write-execute memory") { call(MMAP, 0, 4096, 7, 0x22, -1, 0) }
    page = call(MMAP, 0, 4096, 3, 0x22, -1, 0)
    try("memory made executable") { call(MPROTECT, page, 4096, 5) }
  end

  def files
    %w[/home /root /run/user].each { |dir| try("list #{dir}") { Dir.children(dir).empty? ? "empty" : "full" } }
    try("read /home/secret") { File.read("/home/secret") }
    %w[/etc /usr /boot].each { |dir| try("write to #{dir}") { File.write("#{dir}/ublk-test", "") } }
    try("write to /tmp") { File.write("/tmp/ublk-test", "") }
    try("other's /tmp") { File.exist?("/tmp/of-the-host") ? "seen" : "unseen" }
    try("set-uid file") { File.open("/tmp/suid", "w").chmod(0o4755) }
    try("kernel's log") { File.open("/dev/kmsg", "r").close }
    try("kernel's settings") { File.write("/proc/sys/kernel/panic", "1") }
    try("control groups") { Dir.mkdir("/sys/fs/cgroup/ublk-test") }
    try("mount") { call(MOUNT, "none", "/tmp", "tmpfs", 0, 0) }
    try("pivot_root") { call(PIVOT_ROOT, "/tmp", "/tmp") }
  end

  def processes
    try("processes seen") { (Dir.glob("/proc/[0-9]*").map { |d| File.basename(d).to_i } - [Process.pid]).size.to_s }
    %W[/proc/1/status /proc/#{@pid}/status /proc/#{@pid}/mem /proc/#{@pid}/environ].each do |path|
      try("open #{path.sub(@pid.to_s, "OTHER")}") { File.open(path).close }
    end
    try("signal another worker") { Process.kill(0, @pid) }
    try("signal init") { Process.kill(0, 1) }
    try("trace another worker") { call(PTRACE, 16, @pid, 0, 0) }
    try("trace its child") { with_child { |child| call(PTRACE, 16, child, 0, 0) } }
    bytes = "\0" * 8
    here = [address(bytes), 8].pack("QQ")
    try("memory of another worker") { call(PROCESS_VM_READV, @pid, here, 1, [4096, 8].pack("QQ"), 1, 0) }
    try("descriptor of another worker") { call(PIDFD_GETFD, call(PIDFD_OPEN, @pid, 0), 3, 0) }
    try("child") { Process.wait(fork { exit! }) }
  end

  def with_child
    child = fork { sleep }
    yield child
  ensure
    Process.kill(:KILL, child)
    Process.wait(child)
  end

  def privileges
    try("uid 0") { Process::Sys.setuid(0) }
    try("its own uid again") { Process::Sys.setuid(Process.uid) }
    try("group 0") { Process::Sys.setgid(0) }
    try("user namespace") { call(UNSHARE, 0x10000000) }
    try("personality") { call(PERSONALITY, 0x0040000) }
    try("host name") { call(SETHOSTNAME, "x", 1) }
    try("clock") { call(CLOCK_SETTIME, 0, "\0" * 16) }
    try("kernel module") { call(INIT_MODULE, "\0", 1, "") }
    try("bpf") { call(BPF, 0, "\0" * 64, 64) }
    try("keyring") { call(ADD_KEY, "user", "x", "y", 1, -3) }
    try("real time") { call(SCHED_SETSCHEDULER, 0, 1, [1].pack("i")) }
  end

  def sockets
    try("unix socket") { Socket.new(:UNIX, :STREAM).close }
    try("internet socket") { Socket.new(:INET, :STREAM).close }
    try("internet 6 socket") { Socket.new(:INET6, :DGRAM).close }
    try("netlink socket") { Socket.new(16, Socket::SOCK_RAW, 0).close }
    try("packet socket") { Socket.new(17, Socket::SOCK_RAW, 0).close }
    try("vsock socket") { Socket.new(40, Socket::SOCK_STREAM, 0).close }
    try("connect") { TCPSocket.new("127.0.0.1", 7777).close }
  end

  def devices
    { "ublkc" => @own, "ublkb" => @own }.each { |kind, id| try("own #{kind}") { File.open("/dev/#{kind}#{id}", "r+").close } }
    { "ublkc" => @other, "ublkb" => @other }.each { |kind, id| try("other #{kind}") { File.open("/dev/#{kind}#{id}", "r+").close } }
    try("ublk-control") { File.open("/dev/ublk-control", "r+").close }
    Dir.glob("/dev/nvme*n1").first(1).each { |path| try("host's disk") { File.open(path).close } }
    try("/dev/mem") { File.open("/dev/mem").close }
  end
end
