# frozen_string_literal: true

require_relative "test_helper"

# The scripts of examples/, loaded as a worker loads them.
module Examples
  # By others of them: a class is that of the file that defined it first.
  REQUIRED = %w[ram_disk file_disk remember].freeze

  @stacks = {}

  class << self
    def path(name) = File.join(ROOT, "examples/#{name}.rb")

    # A UBLK::Stack. Its classes are at the top level.
    def stack(name)
      REQUIRED.each { |other| @stacks[other] ||= load(other) }
      @stacks[name] ||= load(name)
    end

    # The disk that `key=value` words make.
    def disk(name, *words)
      given = words.map { |word| [*word.split("=", 2).insert(1, "s")] }
      stack(name).build(UBLK::Arguments.resolve(name, stack(name).options, given))
    end

    private

    def load(name)
      UBLK::Script.loaded_before = false
      script = UBLK::Script.new(path(name))
      script.stack(script.load)
    ensure
      $LOADED_FEATURES << path(name)
    end
  end
end

# A file whose writes are sure to be there after a power failure only once they were synced. Of each sector that was
# written since, any of its versions may be.
class UnsureFile
  SECTOR = 512

  # Ends a process, as far as these files know.
  Killed = Class.new(Exception) # rubocop:disable Lint/InheritException: nobody is to rescue it

  class << self
    # Of how many changes of any of these files the last one kills; nil for none.
    attr_accessor :fatal

    def count
      return unless fatal && (self.fatal -= 1).zero?

      self.fatal = nil
      raise Killed
    end
  end

  def initialize(file)
    @file = file
    synced
  end

  def pread(length, offset) = @file.pread(length, offset)
  def size = @file.size
  def seek(...) = @file.seek(...)
  def pos = @file.pos
  def flock(_how) = 0
  def close = nil
  def closed? = true

  def pwrite(data, offset)
    UnsureFile.count
    done = @file.pwrite(data, offset)
    (offset / SECTOR..(offset + data.bytesize - 1) / SECTOR).each { |n| (@versions[n] ||= []) << sector(n) }
    done
  end

  def truncate(size)
    UnsureFile.count
    @file.truncate(size)
  end

  def fdatasync
    UnsureFile.count
    synced
    0
  end

  alias fsync fdatasync

  # Writes what a power failure leaves to another file.
  def leave(path, random)
    bytes = @durable.dup
    size = [@size, @file.size].sample(random: random)
    @versions.each do |n, versions|
      kept = [nil, *versions].sample(random: random) or next
      bytes = bytes.ljust(n * SECTOR, "\0")
      bytes[n * SECTOR, kept.bytesize] = kept
    end
    File.binwrite(path, bytes.byteslice(0, size).ljust(size, "\0"))
  end

  private

  def sector(number) = @file.pread(SECTOR, number * SECTOR)

  def synced
    @durable = @file.size.zero? ? "".b : @file.pread(@file.size, 0)
    @size = @file.size
    @versions = {}
  end
end
