#!/usr/bin/env ruby
# frozen_string_literal: true

# A client of org.ublk in Ruby: makes a RAM disk, follows what becomes of it, shows what it has done, and deletes it.
# As root:  create.rb NAME SIZE       SIZE in bytes
# Takes the library ruby-dbus (Debian: ruby-dbus), which nothing else of ublk-ruby does.
require "dbus"

# An error has a name, which programs go by, and a message, which people read; e.message has more to it.
def text(error) = "#{error.name}: #{error.dbus_message&.params&.first || error.message}"

def run(name, size)
  service = DBus::SystemBus.instance["org.ublk"]
  root = service["/org/ublk"]
  root.introspect
  manager = root["org.ublk.Manager"]

  # Signals come while a call waits for its answer; a program that only listens has DBus::Main#run.
  objects = root["org.freedesktop.DBus.ObjectManager"]
  objects.on_signal("InterfacesAdded") { |path, _interfaces| puts "signal: InterfacesAdded #{path}" }
  objects.on_signal("InterfacesRemoved") { |path, _interfaces| puts "signal: InterfacesRemoved #{path}" }

  # The answer comes when the disk is there, or when nothing is left of it. A value of a{sv} says its type.
  options = { "size" => ["t", size] }
  path = manager.CreateDevice(name, "memory", options)
  device = service[path]
  device.introspect
  disk = device["org.ublk.Device"]
  puts "made: #{path}, #{disk["Node"]}, #{disk["State"]}"
  device["org.freedesktop.DBus.Properties"].on_signal("PropertiesChanged") do |_interface, changed, _invalidated|
    puts "signal: PropertiesChanged #{changed.keys.join(" ")}"
  end

  File.open(disk["Node"], "r+b") do |node|
    node.write("\0" * (256 << 10))
    node.fsync
  end
  statistics = disk.GetStatistics
  puts "written: #{statistics["written-bytes"]} bytes in #{statistics["requests"]} requests"

  begin
    manager.CreateDevice(name, "memory", options)
    abort "There are two devices #{name}."
  rescue DBus::Error => e
    raise unless e.name == "org.ublk.Error.DeviceExists"

    puts text(e)
  end

  disk.Restart({})
  disk.Delete({})
  manager.ListDevices # whatever was said of it has come by now
  puts "deleted: #{name}"
end

abort "usage: #{$PROGRAM_NAME} NAME SIZE" unless ARGV.size == 2
begin
  run(ARGV[0], Integer(ARGV[1]))
rescue DBus::Error => e
  abort text(e)
end
