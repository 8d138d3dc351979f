# frozen_string_literal: true

# The part of by-hand/bench that tells where the time goes: what a worker that is started with $UBLK_RUBY_PROFILE=1 counts
# (service/profile.h), and what the kernel counts of it.

require "fiddle"

# In the order of the enumeration Stage.
STAGES = %w[wait enter tidy fetch copy-in hook copy-out commit].freeze
PROFILE_DROP_IN = "/run/systemd/system/ublk-ruby-device@.service.d/bench.conf"
ALLOCATORS = %w[malloc calloc realloc aligned_alloc posix_memalign].freeze
TRACING = "/sys/kernel/tracing"

# Workers that start from here on count, or no longer do.
def profile_workers(wanted)
  FileUtils.mkdir_p(File.dirname(PROFILE_DROP_IN))
  wanted ? File.write(PROFILE_DROP_IN, "[Service]\nEnvironment=UBLK_RUBY_PROFILE=1\n") : FileUtils.rm_f(PROFILE_DROP_IN)
  run!("systemctl", "daemon-reload")
end

# The sum over all queues: objects, hand-overs, requests, batches, and ns by stage. nil for what is not a worker of ours.
def read_profile(target)
  id = target.node[%r{\A/dev/ublkb(\d+)\z}, 1]
  path = "/run/ublk-ruby/#{id}/profile"
  return unless target.ours && File.exist?(path)

  objects, hand_overs, *queues = File.binread(path).unpack("Q*")
  requests, batches, *nsec = queues.each_slice(2 + STAGES.size).to_a.transpose.map(&:sum)
  { objects: objects, hand_overs: hand_overs, requests: requests, batches: batches, nsec: STAGES.zip(nsec).to_h }
end

# What the block's result is, and what was counted while it had requests: the first that come end a wait that began before it.
def watch_profile(target)
  at_rest = before = after = read_profile(target)
  runner = Thread.new { yield }
  until !at_rest || runner.join(0.05)
    after = read_profile(target)
    before = after if before[:requests] < at_rest[:requests] + 100
  end
  [runner.value, before, after]
end

# One run, and what each of its requests took of everything.
def profile(target, load, workload)
  result, before, after = watch_profile(target) { sample(target, load, workload, 0) }
  line = { profile: target.name, **result.slice(:load, :workload, :iops, :cpu, :sleeps, :preemptions, :gc) }
  return line unless before

  n = [after[:requests] - before[:requests], 1].max.to_f
  line.merge(per_batch: (n / [after[:batches] - before[:batches], 1].max).round(2),
             usec: STAGES.to_h { |stage| [stage, ((after[:nsec][stage] - before[:nsec][stage]) / n / 1000).round(3)] },
             objects: ((after[:objects] - before[:objects]) / n).round(4), hand_overs: ((after[:hand_overs] - before[:hand_overs]) / n).round(4))
end

# The kernel counts how often a function of libc is called, by task.
def probe_allocators
  line = File.foreach("/proc/self/maps").find { |text| text.match?(%r{ r-xp .*/libc\.so}) }
  start, offset, path = line.match(/\A(\h+)-\h+ \S+ (\h+) .* (\S+)$/).captures
  ALLOCATORS.each do |name|
    place = Fiddle::Handle::DEFAULT[name] - start.hex + offset.hex
    File.write("#{TRACING}/uprobe_events", "p:bench/#{name} #{path}:0x#{place.to_s(16)}\n", mode: "a")
  end
end

# C allocations per request; nil where the kernel can't count them.
def count_allocations(target, workload)
  system("mount", "-t", "tracefs", "tracefs", TRACING, err: File::NULL) unless File.exist?("#{TRACING}/trace")
  return unless target.pid && File.exist?("#{TRACING}/uprobe_events")

  tasks = Dir.children("/proc/#{target.pid}/task")
  probe_allocators
  ALLOCATORS.each { |name| File.write("#{TRACING}/events/bench/#{name}/trigger", "hist:keys=common_pid") }
  job = fio(target, "floor", workload, 3, File.join(OUT, "fio", "allocations-#{target.name}.json"))
  counts = ALLOCATORS.flat_map { |name| File.read("#{TRACING}/events/bench/#{name}/hist").scan(/common_pid:\s+(\d+).*hitcount:\s+(\d+)/) }
  sum = counts.sum { |task, count| tasks.include?(task) ? count.to_i : 0 }
  (sum / job[workload.end_with?("write") ? "write" : "read"]["total_ios"].to_f).round(4)
rescue SystemCallError => e
  warn "allocations of #{target.name} can't be counted: #{e.message}"
  nil
ensure
  ALLOCATORS.each { |name| File.write("#{TRACING}/events/bench/#{name}/trigger", "!hist:keys=common_pid") rescue nil }
  File.write("#{TRACING}/uprobe_events", "") rescue nil
end

def profile_all(targets)
  OPTIONS["loads"].split(",").product(OPTIONS["workloads"].split(",")).each do |load, workload|
    targets.each do |target|
      next unless wants?(load, workload, target.name)

      line = profile(target, load, workload)
      line[:allocations] = count_allocations(target, workload) if load == "floor"
      say(line)
    end
  end
end
