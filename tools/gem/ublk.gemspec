# frozen_string_literal: true

# For a directory made by tools/gem/stage.

require_relative "lib/ublk/version"

Gem::Specification.new do |spec|
  spec.name = "ublk"
  spec.version = UBLK::VERSION
  spec.summary = "Linux block devices written in Ruby"
  spec.description = "Serves /dev/ublkbN from a Ruby object, through the kernel's ublk driver and io_uring."
  spec.authors = ["The ublk-ruby authors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.extensions = ["ext/ublk/extconf.rb"]
  spec.require_paths = ["lib"]
  spec.files = Dir.glob("{lib,sig,ext,test}/**/*.{rb,rbs,c,h}", base: __dir__).sort + %w[LICENSE README.md]
  spec.requirements = ["Linux 6.6 or later", "liburing 2.3 or later", "jansson 2.13 or later"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
