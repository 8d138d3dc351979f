# frozen_string_literal: true

# What tests/vm/bus asks of the documentation of the bus, dbus/org.ublk.xml.
#
#   bus.rb members XML INTERFACE       each member of the interface: its kind, name, types; sorted
#   bus.rb properties XML INTERFACE    "NAME TYPE", a line each
#   bus.rb methods XML INTERFACE       "NAME", a line for each method that takes an argument

require "rexml/document"

INTERNAL = /\Aorg\.freedesktop\.DBus\./ # annotations that busctl prints of its own accord, or sd-bus for its own flags

def interface(file, name)
  REXML::Document.new(File.read(file)).root.get_elements("interface").find { |i| i["name"] == name } or abort "#{file}: no #{name}"
end

def arguments(member)
  member.get_elements("arg").map { |a| "#{a["direction"] || "out"} #{a["type"]} #{a["name"]}" }
end

def annotations(element)
  element.get_elements("annotation").map { |a| "#{a["name"].sub(INTERNAL, "")}=#{a["value"]}" }.sort
end

def members(interface)
  %w[method signal].flat_map { |kind| interface.get_elements(kind).map { |m| [kind, m["name"], arguments(m), annotations(m)] } } +
    interface.get_elements("property").map { |p| ["property", p["name"], p["type"], p["access"], annotations(p)] }
end

wanted, file, name = ARGV
found = interface(file, name)
case wanted
when "members" then puts members(found).map { |m| m.flatten.join(" ") }.sort
when "properties" then puts found.get_elements("property").map { |p| "#{p["name"]} #{p["type"]}" }
when "methods"
  puts found.get_elements("method").select { |m| m.get_elements("arg").any? { |a| a["direction"] == "in" } }.map { |m| m["name"] }
else abort "unknown word #{wanted}"
end
