# frozen_string_literal: true

# expect: discard-stale
# The cache still has what was discarded.

require_relative "../../../hooks/stock/file"

class Faulty < FileDisk
  def cache = @cache ||= {}

  def read(offset, length) = cache[[offset, length]] ||= super
  def write(offset, data) = cache.clear && super
  def write_zeroes(offset, length, unmap: true) = cache.clear && super
end
