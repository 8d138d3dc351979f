# frozen_string_literal: true

require "redis"
require "tmpdir"

# A redis-server of the test's own, on a socket in a directory of its own.
class RedisServer
  # What a flush may rely on in every version.
  DURABLE = { appendonly: "yes", appendfsync: "always" }.freeze

  attr_reader :directory, :pid

  def self.run(**settings)
    Dir.mktmpdir("redis") do |directory|
      server = new(directory, **settings)
      yield server
    ensure
      server&.stop
    end
  end

  # settings: as in redis.conf, over those of DURABLE.
  def initialize(directory, **settings)
    @directory = directory
    @settings = DURABLE.merge(settings)
    start
  end

  def url = "unix://#{directory}/socket"
  def redis = @redis ||= Redis.new(url: url, password: @settings[:requirepass])

  def start
    settings = { port: 0, unixsocket: "#{directory}/socket", dir: directory, save: "", daemonize: "no" }.merge(@settings)
    words = settings.flat_map { |name, value| ["--#{name.to_s.tr("_", "-")}", value.to_s] }
    @pid = spawn("redis-server", *words, %i[out err] => "#{directory}/log")
    wait
  end

  def stop(signal = :TERM)
    Process.kill(signal, pid)
    Process.wait(pid)
  end

  private

  def wait
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
    redis.ping
  rescue Redis::BaseError
    raise File.read("#{directory}/log") if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline || Process.wait(pid, Process::WNOHANG)

    sleep 0.02
    retry
  end
end
