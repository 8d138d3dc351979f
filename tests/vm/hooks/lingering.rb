# A disk in a file which gets stuck where it is told to: "METHOD WAY" in the file `order` of the directory `orders`, done once,
# or "METHOD WAY always". Reads and writes get stuck only at 4096.
class Lingering < UBLK::Target
  option :path, :path, required: true
  option :orders, :path, required: true
  recovery :reissue

  C_SLEEP = lambda do |seconds|
    require "fiddle"
    usleep = Fiddle::Function.new(Fiddle.dlopen(nil)["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
    usleep.call(seconds * 1_000_000)
  end

  # How a method takes for ever.
  WAYS = {
    "sleep" => -> { sleep },
    "loop" => -> { loop { nil } },
    "count" => -> { i = 0; i += 1 while true },
    "pipe" => -> { IO.pipe[0].read(1) },
    "socket" => -> { require "socket"; UNIXSocket.pair[0].recv(1) },
    "fifo" => -> { path = "/tmp/fifo"; File.mkfifo(path) unless File.exist?(path); File.open(path) },
    "flock" => -> { File.open("/tmp/lock", "w").flock(File::LOCK_EX); File.open("/tmp/lock").flock(File::LOCK_EX) },
    "mutex" => lambda do
      mutex = Mutex.new
      Thread.new { mutex.lock; sleep }
      Thread.pass until mutex.locked?
      mutex.lock
    end,
    "deadlock" => -> { mutex = Mutex.new; mutex.lock; Thread.new { mutex.lock }.join },
    "queue" => -> { Thread::Queue.new.pop },
    "child" => -> { system("exec sleep 60") },
    "regexp" => -> { "#{"a" * 100}!" =~ /\A(a+)+\1?\z/ while true },
    "rescue" => -> { begin; sleep; rescue; retry; end }, # rubocop:disable Style/RescueStandardError
    # These ways the exception does not end.
    "c-code" => -> { C_SLEEP.call(600) },
    "openssl" => lambda do
      require "openssl"
      OpenSSL::KDF.pbkdf2_hmac("x", salt: "y", iterations: (1 << 31) - 1, length: 20, hash: "SHA256")
    end,
    "rescue-exception" => -> { begin; sleep; rescue Exception; retry; end }, # rubocop:disable Lint/RescueException
    "ensure" => -> { begin; sleep; ensure; sleep; end },
    "masked" => -> { Thread.handle_interrupt(Object => :never) { sleep } },
    # And these take no more than that.
    "7-seconds" => -> { sleep 7 },
    "3-seconds" => -> { sleep 3 },
    "thread" => -> { Thread.new { sleep 0.5; C_SLEEP.call(600) } }
  }.freeze

  def initialize(path:, orders:)
    super(size: File.size(path))
    @file = File.open(path, "r+b")
    @order = File.join(orders, "order")
  end

  def read(offset, length)
    linger("read") if offset == 4096
    @file.pread(length, offset)
  end

  def write(offset, data)
    linger("write") if offset == 4096
    @file.pwrite(data, offset)
  end

  def flush
    linger("flush")
    @file.fdatasync
  end

  def discard(_offset, _length) = linger("discard")
  def write_zeroes(offset, length) = linger("write_zeroes") || @file.pwrite("\0" * length, offset)

  private

  def linger(method)
    return unless File.exist?(@order)

    wanted, way, always = File.read(@order).split
    return unless wanted == method

    File.unlink(@order) unless always
    WAYS.fetch(way).call
    nil
  end
end
