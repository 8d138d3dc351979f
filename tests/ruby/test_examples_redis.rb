# frozen_string_literal: true

require_relative "test_helper"
require_relative "redis_server"
load File.join(ROOT, "examples/redis_disk.rb")

class TestRedisDisk < Minitest::Test
  include Exercise

  def serve(size: SIZE, **settings)
    RedisServer.run(**settings) do |server|
      server.redis.set("disk", size)
      yield make(server), server
    end
  end

  # A queue's thread.
  class Worker
    def initialize
      @work = Queue.new
      @done = Queue.new
      Thread.new do
        loop do
          work = @work.pop
          @done << begin
            work.call
            nil
          rescue SystemCallError => e
            e
          end
        end
      end
    end

    # Raises what the block raises.
    def call(&work)
      @work << work
      error = @done.pop
      raise error if error
    end
  end

  def make(server, timeout: 2) = RedisDisk.new(url: server.url, name: "disk", timeout: timeout)
  def keys(server) = server.redis.keys("disk:*").sort

  # Whether this one has WAITAOF.
  def waits?(server) = (server.redis.info["redis_version"].split(".").map(&:to_i) <=> [7, 2]) >= 0

  def test_it_is_a_disk
    serve do |disk, server|
      assert_equal SIZE, disk.size
      exercise(disk, "\0".b * SIZE)
      refute_empty keys(server)
      assert_equal [], server.redis.keys - keys(server) - ["disk"]
    end
  end

  # What is no text, beside what is.
  def test_bytes
    serve do |disk|
      data = "text".b * 16_384 + "\xff\xfe".b * 32_768 + "\u00e9".b * 32_768
      assert_equal data.bytesize, disk.write(512, data.dup)
      assert_same_bytes data, disk.read(512, data.bytesize)
      [0, 512, 65_536, 66_048, 131_072].each { |offset| assert_equal Encoding::BINARY, disk.read(offset, 65_536).encoding, offset }
    end
  end

  def test_holes
    serve do |disk, server|
      assert_equal "\0".b * 65_536 * 3, disk.read(0, 65_536 * 3)
      assert_equal [], keys(server)
      disk.write(65_536 * 2 - 512, "x" * 1024)
      assert_equal %w[disk:1 disk:2], keys(server)

      disk.discard(65_536, 65_536)
      assert_equal %w[disk:2], keys(server)
      disk.discard(0, 65_536 * 2 + 512)
      disk.discard(65_536 * 3, 512)
      assert_equal %w[disk:2], keys(server)
      assert_equal "\0".b * SIZE, disk.read(0, SIZE)
      disk.write_zeroes(0, SIZE)
      assert_equal [], keys(server)
    end
  end

  def test_a_last_chunk_that_is_no_whole_one
    serve(size: 65_536 + 512) do |disk|
      disk.write(65_024, "x" * 1024)
      disk.discard(65_536, 512)
      assert_equal "x" * 512 + "\0" * 512, disk.read(65_024, 1024)
    end
  end

  def test_queues
    serve do |disk, server|
      Array.new(4) do |t|
        Thread.new do
          40.times do |i|
            offset = (i * 4 + t) * 6144
            disk.write(offset, t.to_s * 6144)
            assert_equal t.to_s * 6144, disk.read(offset, 6144)
          end
        end
      end.each(&:join)
      assert_operator server.redis.info("clients")["connected_clients"].to_i, :>=, 5
    end
  end

  # A worker that takes over is a new object; Redis has all that was flushed even if it is killed.
  def test_what_survives
    serve do |disk, server|
      data = Random.new(3).bytes(200_704)
      disk.write(8192, data.dup)
      assert_same_bytes data, make(server).read(8192, data.bytesize)
      disk.flush
      server.stop(:KILL)
      assert_includes assert_raises(Errno::ENOLINK) { disk.read(0, 512) }.message, server.directory
      assert_raises(Errno::ENOLINK) { disk.write(0, "x" * 512) }
      assert_raises(Errno::ENOLINK) { disk.flush }
      server.start
      assert_same_bytes data, disk.read(8192, data.bytesize)
      disk.flush
    end
  end

  def test_connections_that_redis_closes
    serve do |disk, server|
      data = Random.new(4).bytes(131_072)
      disk.read(0, 512)
      server.redis.client("kill", "type", "normal", "skipme", "yes")
      disk.write(512, data.dup)
      server.redis.client("kill", "type", "normal", "skipme", "yes")
      assert_same_bytes data, disk.read(512, data.bytesize)
    end
  end

  def test_a_silent_redis
    serve do |_, server|
      disk = make(server, timeout: 1.5)
      Process.kill(:STOP, server.pid)
      assert_includes assert_raises(Errno::ETIMEDOUT) { disk.read(0, 512) }.message, "silent for 1.5 s"
      Process.kill(:CONT, server.pid)
      assert_equal "\0" * 512, disk.read(0, 512)
    ensure
      Process.kill(:CONT, server.pid)
    end
  end

  def test_no_room
    serve do |disk, server|
      disk.write(0, "x" * 512)
      server.redis.config(:set, "maxmemory", "1")
      assert_includes assert_raises(Errno::ENOSPC) { disk.write(0, "y" * 512) }.message, "used memory"
      assert_equal "x" * 512, disk.read(0, 512)
    end
  end

  # Not one of zeroes.
  def test_a_redis_that_was_emptied
    serve do |disk, server|
      disk.write(0, "x" * 512)
      server.redis.flushall
      operations = [-> { disk.read(0, 512) }, -> { disk.write(0, "x" * 512) }, -> { disk.discard(0, 512) }, -> { disk.flush }]
      operations.each { |operation| assert_raises(Errno::EREMOTEIO, &operation) }
      assert_includes assert_raises(ArgumentError) { make(server) }.message, "redis-cli set disk BYTES"
    end
  end

  def test_what_no_disk_can_be_made_of
    serve do |_, server|
      %w[much 1000].each do |size|
        server.redis.set("disk", size)
        assert_includes assert_raises(ArgumentError) { make(server) }.message, size
      end
      server.redis.set("disk", SIZE)
      server.redis.config(:set, "maxmemory", "100mb")
      server.redis.config(:set, "maxmemory-policy", "allkeys-lru")
      assert_includes assert_raises(ArgumentError) { make(server) }.message, "noeviction"
    end
  end

  def test_a_password
    RedisServer.run(requirepass: "open sesame") do |server|
      server.redis.set("disk", SIZE)
      disk = RedisDisk.new(url: server.url, name: "disk", timeout: 2, password: UBLK::Secret.new("open sesame\n"))
      assert_equal 512, disk.write(0, "x" * 512)
      assert_includes assert_raises(Errno::EREMOTEIO) { make(server) }.message, "NOAUTH"
      # From version 5 on the library takes it for a connection that could not be made.
      wrong = assert_raises(Errno::EREMOTEIO, Errno::ENOLINK) { RedisDisk.new(url: server.url, name: "disk", timeout: 2, password: UBLK::Secret.new("mellon")) }
      assert_includes wrong.message, "WRONGPASS"
    end
  end

  # Redis is asked at every flush: settings may be changed while it runs.
  def test_durability
    serve do |disk, server|
      server.stop
      server.start
      disk.flush
      server.redis.config(:set, "appendfsync", "everysec")
      if waits?(server)
        disk.write(0, "x" * 512)
        disk.flush
        server.stop
        server.start
        server.redis.config(:set, "appendfsync", "everysec")
        assert_equal "x" * 512, disk.read(0, 512)
        assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, "may have lost"
        disk.flush
      else
        assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, "appendfsync always"
      end

      server.redis.config(:set, "appendonly", "no")
      assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, waits?(server) ? "appendonly is disabled" : "appendonly yes"
      assert_raises(Errno::EREMOTEIO) { make(server) }
    end
  end

  # One Redis that was started again is told of to the clients of every queue, whichever of them met it first.
  def test_every_queue_hears_of_what_may_be_lost
    serve do |disk, server|
      skip "this Redis has no WAITAOF" unless waits?(server)

      server.redis.config(:set, "appendfsync", "everysec")
      queues = Array.new(3) { Worker.new }
      queues.each { |queue| queue.call { disk.write(0, "x" * 512) && disk.flush } }
      late = Worker.new # has not flushed before
      server.stop
      server.start
      server.redis.config(:set, "appendfsync", "everysec")
      [*queues, late].each do |queue|
        assert_includes assert_raises(Errno::EREMOTEIO) { queue.call { disk.flush } }.message, "may have lost"
        queue.call { disk.flush }
      end
    end
  end

  # What a flush before did not get to tell is left for the next one.
  def test_a_flush_that_fails_for_another_reason
    serve do |disk, server|
      skip "this Redis has no WAITAOF" unless waits?(server)

      server.stop
      server.start
      server.redis.config(:set, "appendfsync", "no")
      assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, "never syncs"
      server.redis.config(:set, "appendfsync", "everysec")
      assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, "may have lost"
      disk.flush
    end
  end

  # The flush must not say that it has, whichever connection wrote.
  def test_a_redis_that_never_syncs
    serve do |disk, server|
      server.redis.config(:set, "appendfsync", "no")
      Thread.new { disk.write(0, "x" * 512) }.join
      assert_includes assert_raises(Errno::EREMOTEIO) { disk.flush }.message, "appendfsync #{waits?(server) ? "everysec" : "always"}"
    end
  end
end
