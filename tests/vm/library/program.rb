# What only a program with the library in it can do. Every line that is printed is one thing that held.
require "ublk"
require_relative "floor_disk"

def hold(what, held)
  abort "failed: #{what}" unless held
  puts what
end

def direct_read(path, offset = 0)
  system("dd", "if=#{path}", "of=/dev/null", "bs=4k", "count=1", "skip=#{offset / 4096}", "iflag=direct", err: File::NULL)
end

def error_of
  yield
  nil
rescue StandardError => e
  e
end

disks = Array.new(3) { |n| UBLK::Device.create(FloorDisk.new(size: (n + 1) << 24)).start }
hold "three disks in one process", disks.all? { |disk| File.blockdev?(disk.path) && direct_read(disk.path) }
hold "owned", UBLK::Device.owned == disks
hold "sizes", disks.map { |disk| Integer(`blockdev --getsize64 #{disk.path}`) } == [1 << 24, 2 << 24, 3 << 24]
hold "statistics", disks.first.statistics[:completed].positive?
hold "start again is nothing", disks.first.start.equal?(disks.first)
hold "an id that is taken", error_of { UBLK::Device.create(FloorDisk.new(size: 1 << 24), id: disks.first.id) }.is_a?(Errno::EEXIST)
hold "which left nothing", UBLK::Device.list.size == 3

runner = Thread.new { disks[0].run }
sleep 0.1
disks[0].stop
hold "run returned on stop", runner.join(10)
runner = Thread.new { disks[1].run }
runner.report_on_exception = false
sleep 0.1
runner.raise(IOError, "stop it")
hold "Thread#raise ended run", error_of { runner.value }.is_a?(IOError) && disks[1].state == :stopped
disks[2].instance_variable_get(:@threads).first.raise(ThreadError, "from outside")
hold "Thread#raise in a serving thread ended run", error_of { disks[2].run }.is_a?(ThreadError)
disks.each(&:delete)
hold "all are gone", UBLK::Device.owned.empty? && UBLK::Device.list.empty?

# A target that stops its own disk, forks, and raises: once each, when its offset is read. udev reads as well.
class Odd < FloorDisk
  attr_accessor :device, :error

  def actions = @actions ||= {}

  def read(offset, length)
    actions.delete(offset)&.call
    super
  end
end

odd = Odd.new(size: 1 << 24)
device = odd.device = UBLK::Device.create(odd, queues: 2).start
odd.actions[1 << 20] = -> { odd.error = error_of { device.stop } }
hold "its own stop is refused", direct_read(device.path, 1 << 20) && odd.error.is_a?(UBLK::DeviceError)
odd.actions[2 << 20] = -> { fork }
hold "a fork in the target comes to nothing", direct_read(device.path, 2 << 20) && direct_read(device.path, 3 << 20)
odd.actions[4 << 20] = -> { raise "boom" }
hold "an exception is EIO", !direct_read(device.path, 4 << 20) && direct_read(device.path, 4 << 20)
hold "and the last error", device.last_error.start_with?("RuntimeError: boom (")
odd.actions[6 << 20] = -> { throw :nowhere }
hold "a throw is EIO", !direct_read(device.path, 6 << 20) && direct_read(device.path, 6 << 20)
odd.actions[8 << 20] = -> { exit }
hold "an exit is EIO", !direct_read(device.path, 8 << 20) && direct_read(device.path, 8 << 20)

child = fork do
  refused = error_of { device.stop }.is_a?(RuntimeError) && UBLK::Device.owned.empty?
  own = UBLK::Device.create(FloorDisk.new(size: 1 << 24)).start
  served = direct_read(own.path)
  own.delete
  exit!(refused && served ? 0 : 1)
end
hold "a forked child has no part in it, and can make its own", Process.wait2(child)[1].success?
hold "which left ours alone", direct_read(device.path)
device.delete

# Handed over and taken back, by the same process.
kept = UBLK::Device.create(FloorDisk.new(size: 1 << 24), recovery: true).start
hold "recovery: true of a class that declares none is reissue", kept.info.flags.anybits?(1 << 4)
kept.hand_over
hold "handed over", File.blockdev?(kept.path) && UBLK::Device.list.first.recoverable?
again = UBLK::Device.recover(FloorDisk.new(size: 1 << 24), id: kept.id).start
hold "and taken back", direct_read(again.path) && UBLK::Device.list.first.live?
again.delete
hold "nothing is left", UBLK::Device.list.empty?
