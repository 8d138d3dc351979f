# Hands a disk over and takes it back, ARGV[0] times, while two programs read it without a pause.
require "ublk"
require_relative "floor_disk"

SIZE = 1 << 24
rounds = Integer(ARGV.fetch(0))

def reader(path, engine, depth)
  spawn("fio", "--name=#{engine}", "--filename=#{path}", "--direct=1", "--ioengine=#{engine}", "--iodepth=#{depth}",
        "--rw=randread", "--bs=4k", "--time_based", "--runtime=600", out: File::NULL, err: File::NULL)
end

disk = UBLK::Device.create(FloorDisk.new(size: SIZE), recovery: true).start
readers = [reader(disk.path, "io_uring", 4), reader(disk.path, "psync", 1)]
sleep 1 # they start
rounds.times do |round|
  sleep 0.05
  disk.hand_over
  unless UBLK::Device.list.first.recoverable?
    warn "round #{round}: the kernel waits for a request"
    exit! 1
  end
  disk = UBLK::Device.recover(FloorDisk.new(size: SIZE), id: disk.id).start
end
abort "a reader has ended" if readers.any? { |pid| Process.wait(pid, Process::WNOHANG) }
readers.each { |pid| Process.kill(:TERM, pid) }
readers.each { |pid| Process.wait(pid) }
disk.delete
