# frozen_string_literal: true

# nbdkit's RAM disk in Ruby, for tools/bench: as the one in Python.

def config(key, value)
  raise "no parameter #{key}" if key != "size"

  $disk = "\0".b * (value.to_i + 1)
end

def open(_readonly) = 1
def get_size(_handle) = $disk.bytesize - 1
def pread(_handle, count, offset) = $disk.byteslice(offset, count)
def pwrite(_handle, data, offset) = $disk[offset, data.bytesize] = data
def flush(_handle) = nil
