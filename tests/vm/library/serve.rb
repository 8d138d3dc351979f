# Serves a disk in this very process: `serve.rb key=value...`. Keys of FloorDisk; file=PATH for the stock hook instead;
# id, queues, depth, recovery of the device; recover=ID takes one over; delete=yes deletes it in the end; term=stop:
# SIGTERM stops it from another thread; fork=yes: a child comes and goes first. Prints "live ID QUEUES" and, when
# `run` has returned, "ended STATE".
require "ublk"
require_relative "floor_disk"
load "/usr/lib/ublk-ruby/hooks/file.rb"

$stdout.sync = true
settings = ARGV.to_h { |word| word.split("=", 2) }.transform_keys(&:to_sym)
disk, device = settings.partition { |key, _| FloorDisk.options.key?(key) || key == :file }.map(&:to_h)

target =
  if disk[:file] then FileDisk.new(path: disk[:file], size: disk[:size]&.to_i)
  else FloorDisk.new(**disk.to_h { |key, value| [key, FloorDisk.options[key].coerce(value)] })
  end

served =
  if device[:recover] then UBLK::Device.recover(target, id: device[:recover].to_i)
  else
    UBLK::Device.create(target, id: device[:id]&.to_i, queues: device.fetch(:queues, 1).to_i,
                                depth: device.fetch(:depth, 128).to_i, recovery: device[:recovery] == "yes")
  end

trap("TERM") { Thread.new { served.stop } } if device[:term] == "stop"
Process.wait(fork { exit }) if device[:fork] == "yes"
served.start
puts "live #{served.id} #{served.info.queues}"
served.run
served.delete if device[:delete] == "yes"
puts "ended #{served.state}"
