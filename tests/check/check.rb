# frozen_string_literal: true

# `ublk-ruby-worker --check` and `ublkctl check`, as any user runs them; prints TAP. Each script under faults/ and more/ says in
# its head which fault is to be found: `# expect: ID`. It must be the first one that is reported.

require "digest"
require "json"
require "open3"
require "socket"
require "timeout"
require "tmpdir"
require_relative "surroundings"

ROOT = File.expand_path("../..", __dir__)
WORKER = ENV.fetch("UBLK_RUBY_WORKER")
UBLKCTL = ENV.fetch("UBLKCTL")
IMAGE_SIZE = 6 << 20

# What the checks run on, and the results, which come from two threads.
class Bench
  attr_reader :directory, :image, :surroundings

  def initialize(directory)
    @directory = directory
    @image = File.join(directory, "disk.img")
    @temporary = File.join(directory, "tmp")
    Dir.mkdir(@temporary)
    @memory = Dir.mktmpdir("check", "/dev/shm") if File.writable?("/dev/shm")
    File.write(@image, "")
    File.truncate(@image, IMAGE_SIZE)
    @surroundings = Surroundings.new(directory)
    @cases = Queue.new
    @lock = Mutex.new
    @results = 0
    @failed = false
  end

  def test(name, &block) = @cases << [name, block]

  # The path of a new file of this size.
  def file(name, size)
    File.join(@directory, name).tap do |path|
      File.write(path, "")
      File.truncate(path, size)
    end
  end

  # [status, stdout, stderr]. any_hook: also where root runs this, and others may write to what is above the clone.
  def run(*words, program: WORKER, extra: {}, any_hook: true)
    words.unshift("--any-hook") if any_hook
    out, err, status = Open3.capture3({ "TMPDIR" => @temporary }.merge(extra), *program, *words.map(&:to_s))
    [status.exitstatus, out, err]
  end

  # [status, document]
  def check(*words, **options)
    status, out, err = run("--check", "--json", *words, **options)
    [status, JSON.parse(out)]
  rescue JSON::ParserError
    raise "no JSON but: #{out}#{err}"
  end

  # For copies that need no real disk under them, and its flushes.
  def in_memory = { "TMPDIR" => @memory || @temporary }

  def left_behind = Dir.children(@temporary) + (@memory ? Dir.children(@memory) : [])

  def go
    workers = Array.new(2) { Thread.new { work } }
    workers.each(&:join)
    report("nothing is left behind") { expect([], left_behind) }
    Dir.rmdir(@memory) if @memory
    puts "1..#{@results}"
    exit(!@failed)
  ensure
    @surroundings.stop
  end

  def expect(expected, actual)
    raise "expected #{expected.inspect}, got #{actual.inspect}" unless expected == actual
  end

  private

  def work
    loop { report(*@cases.pop(true)) }
  rescue ThreadError
    nil # all done
  end

  def report(name, block = nil, &given)
    Timeout.timeout(100) { (block || given).call }
    say("ok", name, "")
  rescue StandardError => e
    @failed = true
    say("not ok", name, "\n# #{e.message.gsub("\n", "\n# ")}")
  end

  def say(result, name, rest)
    @lock.synchronize { puts "#{result} #{@results += 1} - #{name}#{rest}" }
  end
end

def expect_pass(document)
  fault = faults_of(document).first
  raise "#{fault["check"]}: #{fault["id"]}: #{fault["message"]}" if fault
  raise document["error"].to_s unless document["result"] == "pass"
end

def faults_of(document) = document.fetch("checks").select { |check| check["result"] == "fault" }

def test_fault(bench, script)
  expected = File.foreach(script).grep(/\A# expect: (\S+)/) { $1 }.first
  bench.test("#{File.basename(script, ".rb")}: #{expected}") do
    status, document = bench.check("--seed=1", script, "path=#{bench.image}", "hook-timeout=5000000", extra: bench.in_memory)
    fault = faults_of(document).first
    raise "nothing was found: #{JSON.pretty_generate(document.slice("error", "checks", "notes"))}" unless fault
    raise "found #{fault["id"]}: #{fault["message"]}" unless fault["id"] == expected
    raise "no hint" if fault["hint"].start_with?("See ")

    bench.expect(1, status)
  end
end

# What an example takes beside what its schema tells.
EXAMPLES = {
  "mirror" => ->(bench) { ["first=#{bench.image}", "second=#{bench.file("second.img", IMAGE_SIZE)}"] },
  "quota" => ->(bench) { ["path=#{bench.image}", "limit=#{IMAGE_SIZE}"] },
  "thin" => ->(bench) { ["path=#{bench.file("thin.img", 0)}", "size=1T"] }
}.freeze

# Arguments for any hook, from its schema. One that needs more than a path or a size is a failure until EXAMPLES or
# Surroundings knows how to give it: an example that nobody drives is not passed over.
def arguments_for(bench, hook)
  name = File.basename(hook, ".rb")
  known = EXAMPLES[name] and return known.call(bench)

  _, out, err = bench.run("--describe", "--json", hook)
  schema = JSON.parse(out)["schema"] or raise out + err

  schema["options"].select { |option| option["required"] || option["name"] == "size" }.map do |option|
    value = bench.surroundings.value(name, option["name"])
    value ||= { "path" => bench.image, "bytes" => "6M" }[option["type"]] or raise "no value is known for #{option["name"]}"
    "#{option["name"]}=#{value}"
  end
end

def test_sound(bench, name, hook)
  bench.test("#{name} passes") do
    expect_pass(bench.check(hook, *arguments_for(bench, hook)).last)
  end
end

def write_hook(bench, name, text)
  File.join(bench.directory, "#{name}.rb").tap { |path| File.write(path, text) }
end

def test_user_files(bench)
  bench.test("the user's file is not touched") do
    image = File.join(bench.directory, "mine.img")
    File.binwrite(image, Random.bytes(256 << 10))
    before = Digest::SHA256.file(image)
    expect_pass(bench.check("file", "path=#{image}").last)
    bench.expect(before, Digest::SHA256.file(image))
    expect_pass(bench.check("--in-place", "file", "path=#{image}").last)
    raise "--in-place wrote nothing" if before == Digest::SHA256.file(image)
  end
  bench.test("what can't be copied is refused") do
    path = File.join(bench.directory, "socket")
    UNIXServer.new(path)
    status, document = bench.check("file", "path=#{path}")
    raise document.to_s unless status == 2 && document["error"]["message"].include?("--in-place")
  end
end

def test_network(bench)
  hook = write_hook(bench, "remote", <<~RUBY)
    require "#{ROOT}/hooks/stock/memory"
    class Remote < MemoryDisk
      network true
      def write(offset, data) = raise("never")
      def read_only? = UBLK.read_only?
    end
  RUBY
  bench.test("a hook that uses the network is only read") do
    bench.expect("pass", bench.check(hook, "size=1M").last["result"])
    bench.expect("write-failed", faults_of(bench.check("--in-place", hook, "size=1M").last).first["id"])
  end
  bench.test("examples/redis_disk.rb is written as well, --in-place") do
    example = "#{ROOT}/examples/redis_disk.rb"
    expect_pass(bench.check("--in-place", example, *arguments_for(bench, example)).last)
  end
end

def test_secret(bench)
  hook = write_hook(bench, "keeper", <<~RUBY)
    require "#{ROOT}/hooks/stock/memory"
    class Keeper < MemoryDisk
      option :key, :secret, required: true
      def initialize(key:, **rest)
        @key = key.value
        super(**rest)
      end
      def read(offset, length) = @key == "swordfish-17" && offset > 0 ? raise("no \#{@key}") : super
    end
  RUBY
  key = File.join(bench.directory, "key")
  File.write(key, "a good one", perm: 0o600)
  wrong = File.join(bench.directory, "wrong")
  File.write(wrong, "swordfish-17", perm: 0o600)
  bench.test("a secret is read from a file of the caller's") do
    bench.expect("pass", bench.check(hook, "size=1M", "key=#{key}").last["result"])
    status, out, err = bench.run("--describe", hook, "size=1M", "key=#{key}")
    bench.expect([0, true, false], [status, out.include?("secret"), (out + err).include?("a good one")])
  end
  bench.test("a secret is in no report") do
    status, document = bench.check(hook, "size=1M", "key=#{wrong}")
    bench.expect([1, true, false], [status, document.to_s.include?("no [secret key]"), document.to_s.include?("swordfish")])
  end
  bench.test("a secret that others can read, and one on the command line, are refused") do
    shared = File.join(bench.directory, "shared")
    File.write(shared, "swordfish-17", perm: 0o644)
    { "key=#{shared}" => "others can read", "key=sword fish" => "never give the secret itself" }.each do |word, message|
      status, out, err = bench.run("--check", hook, "size=1M", word)
      bench.expect([2, true, false], [status, (out + err).include?(message), (out + err).match?(/sword ?fish/)])
    end
  end
end

def test_interrupt(bench)
  bench.test("SIGINT ends it, and nothing is left") do
    Dir.mktmpdir do |temporary|
      Open3.popen3({ "TMPDIR" => temporary }, WORKER, "--check", "--any-hook", "--seconds=40", "file", "path=#{bench.image}") do |_, out, _, thread|
        nil until out.gets.include?("write-zeroes:")
        raise "no copies?" if Dir.empty?(temporary)

        Process.kill(:INT, thread.pid)
        bench.expect(130, thread.value.exitstatus)
      end
      bench.expect([], Dir.children(temporary))
    end
  end
end

def test_options(bench)
  bench.test("a path that names nothing is said to") do
    message = bench.check("file", "path=#{bench.directory}/none.img").last["error"]["message"]
    raise message unless message.start_with?("path=#{bench.directory}/none.img does not exist")
    raise message unless message.include?("make it with truncate -s SIZE #{bench.directory}/none.img")
  end
  bench.test("the same seed is the same run") do
    runs = Array.new(2) { bench.check("--seed=42", "file", "path=#{bench.image}").last }
    bench.expect(*runs)
  end
  bench.test("--gc-stress") { bench.expect("pass", bench.check("--gc-stress", "memory", "size=64K").last["result"]) }
  bench.test("--seconds") { bench.expect("pass", bench.check("--seconds=1", "memory", "size=64M").last["result"]) }
  bench.test("--time") do
    figures = bench.check("--time=3", "memory", "size=16M").last["checks"].first["figures"]
    bench.expect([true, true], figures.values_at("randread", "randwrite").map { |f| f["median"].between?(0.01, 1000) })
  end
  bench.test("data-path=string, data-path=buffer") do
    %w[string buffer].each { |path| expect_pass(bench.check("memory", "size=64K", "data-path=#{path}").last) }
    status, document = bench.check("#{__dir__}/sound/blocks-of-4096.rb", "data-path=buffer")
    raise document.to_s unless status == 1 && document["error"]["message"].include?("define read_into and write_from")
  end
  bench.test("hook-timeout=0, as create has it") { bench.expect(0, bench.run("--check", "--time=1", "memory", "size=1M", "hook-timeout=0").first) }
  bench.test("wrong usage is status 2") do
    [%w[--check], %w[--check nosuch], %w[--check memory], %w[--check memory size=x], %w[--check memory size=1M other=1], %w[--check --seed=x memory], %w[--check memory size=1M data-path=routed-copy],
     %w[--check memory recovery=x size=1M]].each { |words| bench.expect([words, 2], [words, bench.run(*words).first]) }
  end
end

# How to run something as root, or what takes itself for root and has nobody's files trusted; nil if that can't be had.
def as_root
  return [] if Process.euid.zero?

  %w[unshare --user --map-root-user].then { |words| words if system(*words, "true", err: File::NULL) }
end

# What root runs nobody else can have written; to complete a line it is run by the way.
def test_trust(bench)
  hook = write_hook(bench, "theirs", <<~RUBY)
    File.write("#{bench.directory}/ran", "")
    require "#{ROOT}/hooks/stock/memory"
    class Theirs < MemoryDisk; end
  RUBY
  File.chown(1, nil, hook) if Process.euid.zero?
  bench.test("root does not run a hook that others can have written, unless it is told to") do
    next unless (root = as_root)

    ran = -> { File.exist?("#{bench.directory}/ran") }
    %w[--describe --check].each do |verb|
      status, out, err = bench.run(verb, hook, "size=1M", program: [*root, WORKER], any_hook: false)
      bench.expect([2, true, false], [status, (out + err).include?("with --any-hook"), ran.call])
    end
    if root.empty? # else the file is the caller's own even so
      extra = { "UBLK_RUBY_HOOK_PATH" => File.dirname(hook) }
      status, = bench.run("--describe", "theirs", any_hook: false, extra: extra)
      bench.expect([2, false], [status, ran.call])
    end
    extra = { "UBLK_RUBY_WORKER" => WORKER }
    status, out, = bench.run("--complete", "create", "x", hook, "", program: [*root, UBLKCTL], any_hook: false, extra: extra)
    bench.expect([0, false, true, false], [status, out.match?(/^size=/), out.match?(/^queues=/), ran.call])
    status, = bench.run("--describe", hook, "size=1M", program: [*root, WORKER])
    bench.expect([0, true], [status, ran.call])
  end
end

def test_ublkctl(bench)
  extra = { "UBLK_RUBY_WORKER" => WORKER }
  bench.test("ublkctl describe") do
    status, out, = bench.run("--json=short", "describe", "memory", "size=3M", program: UBLKCTL, extra: extra)
    bench.expect([0, 3 << 20], [status, JSON.parse(out).dig("geometry", "size")])
    status, out, = bench.run("describe", "file", program: UBLKCTL, extra: extra)
    bench.expect([0, true], [status, out.match?(/^  path +path +required/)])
  end
  bench.test("ublkctl check") do
    status, out, = bench.run("check", "--seed", 5, "memory", "size=64K", program: UBLKCTL, extra: extra)
    bench.expect([0, true], [status, out.include?("(seed 5)")])
    bench.expect(1, bench.run("check", "#{__dir__}/faults/short-read.rb", "path=#{bench.image}", program: UBLKCTL, extra: extra).first)
  end
end

$stdout.sync = true
Dir.mktmpdir("check") do |directory|
  bench = Bench.new(directory)
  faults = Dir["#{__dir__}/faults/*.rb"].sort
  bench.test("there are twenty-two faults") { bench.expect(22, faults.size) }
  test_interrupt(bench)
  (faults + Dir["#{__dir__}/more/*.rb"].sort).each { |script| test_fault(bench, script) }
  %w[memory file null].each { |name| test_sound(bench, name, name) }
  (Dir["#{__dir__}/sound/*.rb"] + Dir["#{ROOT}/examples/*.rb"]).sort.each { |path| test_sound(bench, path.delete_prefix("#{ROOT}/"), path) }
  test_user_files(bench)
  test_network(bench)
  test_secret(bench)
  test_options(bench)
  test_trust(bench)
  test_ublkctl(bench)
  bench.go
end
