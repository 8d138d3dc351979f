require "ublk/autorun"
require "redis"

# A disk in chunks of 64 KiB in Redis, by key; what was never written has none. It is made there first:
#
#   redis-cli set disk0 67108864               64 MiB, whose chunks will be disk0:0, disk0:1, ...
#   ublkctl create kept redis_disk url=unix:///run/redis/redis-server.sock name=disk0
#   ruby examples/redis_disk.rb url=redis://192.0.2.1:6379 name=disk0 --queues 2
#
# What is written is in Redis's memory, and survives the worker. From the next flush on it survives Redis and its machine
# as well: `appendonly yes` is needed, and flush waits until the append-only file is synced. Before 7.2 nothing can wait
# for that, and it has to be `appendfsync always`. A Redis that may drop keys when its memory is full is refused.
class RedisDisk < UBLK::Target
  CHUNK = 64 * 1024

  option :url, :string, required: true, doc: "redis://HOST:PORT, rediss://HOST:PORT or unix:///SOCKET"
  option :name, :string, required: true, doc: "of the disk: the key that has its size in bytes"
  option :password, :secret, doc: "that Redis wants"
  option :timeout, :duration, default: "5s", doc: "how long Redis may be silent"
  network true
  recovery :reissue                      # Redis outlives the worker, and a write that is done twice is done

  def initialize(url:, name:, timeout:, password: nil)
    @name = name
    @timeout = timeout
    @settings = { url: url, password: password&.value&.chomp, timeout: timeout, reconnect_attempts: 0 }
    @connections = {}.compare_by_identity # by thread: each queue has its own
    @runs = {}.compare_by_identity        # by thread: which process it is connected to
    @flushed = {}.compare_by_identity     # by thread: with which one it has flushed
    @stored_size = talk { |redis| redis.get(name) } or
      raise ArgumentError, "Redis has no disk #{name}: redis-cli set #{name} BYTES makes one"
    @first_run = @runs[Thread.current]
    super(size: Integer(@stored_size, 10))
    check_redis
  end

  def read(offset, length)
    parts = parts(offset, length)
    found = ask { |redis| parts.each { |key, from, count| redis.getrange(key, from, from + count - 1) } }
    data = String.new(capacity: length)
    parts.zip(found) { |(_, _, count), bytes| data << bytes.b << ("\0" * (count - bytes.bytesize)) }
    data
  end

  def write(offset, data)
    ask do |redis|
      done = 0
      parts(offset, data.bytesize).each do |key, from, count|
        redis.setrange(key, from, data.byteslice(done, count))
        done += count
      end
    end
    data.bytesize
  end

  # Chunks that are covered go; of others the part is filled with zeroes.
  def discard(offset, length)
    whole, rest = parts(offset, length).partition { |_, _, count| count == CHUNK }
    whole.each_slice(1000) { |some| ask { |redis| redis.unlink(*some.map(&:first)) } }
    rest.each do |key, from, count|
      there, = ask { |redis| redis.exists?(key) }
      ask { |redis| redis.setrange(key, from, "\0" * count) } if there
    end
  end

  alias write_zeroes discard

  def flush
    settings, = ask { |redis| redis.config(:get, "*append*") }
    always = settings.values_at("appendonly", "appendfsync", "no-appendfsync-on-rewrite") == %w[yes always no]
    wait_for_sync(settings["appendfsync"]) unless always
    refuse "was started again, and may have lost what it had not synced" if restarted? && !always
  end

  private

  # [key, from where in the chunk, how many bytes] for each chunk that a range touches
  def parts(offset, length)
    (offset / CHUNK..(offset + length - 1) / CHUNK).map do |number|
      from = [offset - number * CHUNK, 0].max
      to = [offset + length - number * CHUNK, CHUNK].min
      ["#{@name}:#{number}", from, to - from]
    end
  end

  # The answers to the commands of the block, which are sent at once. Asked last: whether the disk is still there. A
  # Redis that was emptied, or has lost all in a restart, must not pass for a disk of zeroes.
  def ask
    *answers, size = talk do |redis|
      redis.pipelined do |pipeline|
        yield pipeline
        pipeline.get(@name)
      end
    end
    size == @stored_size ? answers : refuse("has lost the disk #{@name}")
  end

  # A connection may be closed, by a Redis that is started again for instance: that is no error, once.
  def talk
    2.times do |attempt|
      return yield(@connections[Thread.current] ||= connect)
    rescue Redis::BaseConnectionError => e
      @connections.delete(Thread.current)
      raise Errno::ETIMEDOUT, "Redis was silent for #{@timeout} s" if e.is_a?(Redis::TimeoutError)
      raise Errno::ENOLINK, e.message if attempt == 1
    rescue Redis::CommandError => e
      raise Errno::ENOSPC, "Redis: #{e.message}" if e.message.start_with?("OOM")

      refuse "says #{e.message}"
    end
  end

  def connect = Redis.new(@settings).tap { |redis| @runs[Thread.current] = redis.info("server")["run_id"] }

  # What a Redis had answered but not synced may be gone once it is another process. Of that the next flush of each
  # queue has to tell, as each may have clients of its own.
  def restarted?
    before = @flushed.fetch(Thread.current, @first_run)
    before != (@flushed[Thread.current] = @runs[Thread.current])
  end

  def wait_for_sync(policy)
    refuse "before 7.2 needs appendonly yes, appendfsync always, no-appendfsync-on-rewrite no" unless @can_wait
    refuse "never syncs its append-only file: it needs appendfsync everysec" if policy == "no"
    refuse "has not synced its append-only file: it needs appendonly yes, appendfsync everysec" unless synced?
  end

  def refuse(why)
    raise Errno::EREMOTEIO, "Redis #{why}"
  end

  # What makes a Redis a bad place for a disk.
  def check_redis
    version = talk { |redis| redis.info("server") }["redis_version"]
    @can_wait = (version.split(".").map(&:to_i) <=> [7, 2]) >= 0
    settings = talk { |redis| redis.config(:get, "maxmemory*") }
    if settings["maxmemory"] != "0" && settings["maxmemory-policy"].start_with?("allkeys")
      raise ArgumentError, "Redis may drop any key when its memory is full: redis-cli config set maxmemory-policy noeviction"
    end

    flush
  end

  # WAITAOF is about the writes of its own connection. The SET makes it be about all that anybody wrote before.
  def synced?
    _, (synced,) = ask do |redis|
      redis.set(@name, @stored_size, xx: true)
      redis.call("WAITAOF", 1, 0, (@timeout * 900).to_i)
    end
    synced == 1
  end
end
