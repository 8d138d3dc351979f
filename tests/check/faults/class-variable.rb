# frozen_string_literal: true

# expect: class-state
# A cache in a class variable outlives its target, and the next one finds it.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  @@cache = {}

  def read(offset, length) = @@cache[[offset, length]] ||= super
  def write(offset, data) = @@cache.clear && super
  def discard(offset, length) = @@cache.clear && super
  def write_zeroes(offset, length, unmap: true) = @@cache.clear && super
end
