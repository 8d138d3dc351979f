# Does what the file `order` in the directory `orders` names, once, when 4 KiB at 4096 are read or written.
# Everything else is served: reads give "r". Keeps nothing, so a request may be served twice.
class Misbehaving < UBLK::Target
  option :orders, :path, required: true
  recovery :reissue

  # What a read does that gets its block; the value of the block is its answer.
  READS = {
    "ENOSPC" => ->(_) { raise Errno::ENOSPC, "full" },
    "minus-ENODATA" => ->(_) { -Errno::ENODATA::Errno },
    "EAGAIN" => ->(_) { raise Errno::EAGAIN },
    "errno-0" => ->(_) { raise SystemCallError.new("x", 0) },
    "errno-nil" => ->(_) { raise SystemCallError.new("x") },
    "errno-99999" => ->(_) { raise SystemCallError.new("x", 99_999) },
    "minus-5000" => ->(_) { -5000 },
    "timeout" => ->(_) { require "timeout"; Timeout.timeout(0.05) { sleep } },
    "raise" => ->(_) { deep(5) },
    "exit" => ->(_) { exit },
    "abort" => ->(_) { abort "aborted" },
    "interrupt" => ->(_) { raise Interrupt },
    "kill-int" => ->(_) { Thread.main.raise(Interrupt); sleep 1 },
    "main-kill" => ->(_) { Thread.main.kill; sleep 1 },
    "throw" => ->(_) { throw :away },
    "orphan-return" => ->(_) { orphan.call },
    "stack-overflow" => ->(_) { forever },
    "no-memory" => ->(_) { "x" * (1 << 62) },
    "short" => ->(data) { data[1..] },
    "long" => ->(data) { "#{data}x" },
    "characters" => ->(data) { "\u00e9" * data.bytesize },
    "nil" => ->(_) { nil },
    "frozen" => ->(data) { data.freeze },
    "not-binary" => ->(data) { data.dup.force_encoding("UTF-16LE") },
    "subclass" => ->(data) { Class.new(String) { def bytesize = 1 }.new(data) },
    "fork" => lambda do |data|
      (pid = fork) && Process.wait2(pid)[1].exitstatus == 70 ? data : raise("the child lives")
    end,
    "fork-block" => ->(data) { Process.wait2(fork { exec "true" })[1].success? ? data : raise("no child") },
    "exec" => ->(_) { exec "sleep", "100" },
    "daemon" => ->(_) { Process.daemon },
    "trap" => ->(data) { trap("TERM") { warn "trapped" }; trap("USR2", "IGNORE"); data },
    "close-io" => ->(_) { ObjectSpace.each_object(IO) { |io| io.close unless io.closed? }; raise "closed" },
    "gc-disable" => ->(data) { GC.disable; data },
    "spin" => ->(data) { Thread.new { stop = Time.now + 3; nil while Time.now < stop }; data },
    "abort-on-exception" => lambda do |_|
      Thread.new do
        Thread.current.report_on_exception = false
        Thread.current.abort_on_exception = true
        raise "elsewhere"
      end
      sleep 1
    end,
    # These end the process; the request is served by the next one.
    "exit!" => ->(_) { exit!(0) },
    "exit!-75" => ->(_) { exit!(75) },
    "exit!-76" => ->(_) { exit!(76) },
    "exit!-78" => ->(_) { Process.exit!(78) },
    "kill-9" => ->(_) { Process.kill(:KILL, Process.pid); sleep },
    "close-descriptors" => lambda do |data|
      (3..400).each do |number|
        IO.for_fd(number).close
      rescue SystemCallError, ArgumentError
        nil
      end
      data
    end
  }.freeze

  WRITES = {
    "write-less" => ->(data) { data.bytesize - 1 },
    "write-nil" => ->(_) { nil },
    "write-EDQUOT" => ->(_) { raise Errno::EDQUOT }
  }.freeze

  class << self
    def deep(n) = n.zero? ? raise("out of luck") : deep(n - 1)
    def forever = forever
    def orphan = proc { return 1 }
  end

  def initialize(orders:)
    super(size: 1 << 20)
    @order = File.join(orders, "order")
  end

  def read(offset, length)
    data = "r".b * length
    offset == 4096 && (order = take) ? Misbehaving.instance_exec(data, &READS.fetch(order)) : data
  end

  def write(offset, data)
    offset == 4096 && (order = take) ? WRITES.fetch(order).call(data) : data.bytesize
  end

  private

  def take
    return unless File.exist?(@order)

    File.read(@order).tap { File.unlink(@order) }
  end
end
