# frozen_string_literal: true

require "zlib"
require_relative "../ruby/redis_server"
require_relative "../vm/examples.d/http_server"

# What examples need that no path and no size can stand for. Made when it is asked for; `stop` ends what runs.
class Surroundings
  # By hook and option.
  VALUES = {
    "http_disk" => { "url" => :http_url },
    "encrypted" => { "key" => :key_file },
    "gzip_disk" => { "path" => :gzip_image },
    "redis_disk" => { "url" => :redis_url, "name" => :redis_disk }
  }.freeze

  SIZE = 6 << 20

  # directory: for files.
  def initialize(directory)
    @directory = directory
    @lock = Mutex.new
    @running = []
    @disks = 0
  end

  # nil if nothing is known of such an option.
  def value(hook, option)
    maker = VALUES.dig(hook, option) or return
    @lock.synchronize { send(maker) }
  end

  def stop = @running.each(&:stop)

  private

  # Of bytes that are nowhere the same.
  def random_image
    @random_image ||= File.join(@directory, "random.img").tap { |path| File.binwrite(path, Random.bytes(SIZE)) }
  end

  def gzip_image
    @gzip_image ||= "#{random_image}.gz".tap { |path| File.binwrite(path, Zlib.gzip(File.binread(random_image), level: 1)) }
  end

  def key_file
    @key_file ||= File.join(@directory, "key").tap { |path| File.binwrite(path, Random.bytes(64), perm: 0o600) }
  end

  def http_url
    @http_server ||= HttpServer.new(random_image).tap { |server| @running << server }
    @http_server.url
  end

  def redis
    @redis ||= begin
      Dir.mkdir(directory = File.join(@directory, "redis"))
      RedisServer.new(directory).tap { |server| @running << server }
    end
  end

  def redis_url = redis.url

  # Another one each time: checks run side by side.
  def redis_disk
    "disk#{@disks += 1}".tap { |name| redis.redis.set(name, SIZE) }
  end
end
