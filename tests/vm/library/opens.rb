# A thousand control handles, one after the other: says how many descriptors are open before and after.
require "ublk"

def descriptors = Dir.children("/proc/self/fd").size

UBLK::Control.new.close
before = descriptors
1000.times { UBLK::Control.open { |control| raise "none" unless control.list } }
puts "#{before} #{descriptors}"
