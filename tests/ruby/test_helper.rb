# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"

ROOT = File.expand_path("../..", __dir__)
$LOAD_PATH.unshift(File.join(ROOT, "hooks/lib"))
require "ublk/runtime"

# The stock hooks, each loaded once. They are scripts of their own names and define top-level classes.
module StockHooks
  def self.path(name) = File.join(ROOT, "hooks/stock/#{name}.rb")

  def self.load_all = %w[memory file null].each { |name| Kernel.load(path(name)) }
end
