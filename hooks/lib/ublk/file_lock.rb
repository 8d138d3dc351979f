# frozen_string_literal: true

module UBLK
  # For a file that one disk has to itself: `UBLK::FileLock.take(file)`, before anything of it is read.
  #
  # The lock is flock(2)'s: it ends when the file is closed, with the process if not before, and a child that was forked has
  # it as well as long as it runs. Whoever takes a disk over makes the target while the former server may still be ending, and
  # must not read what that one is about to write: so the lock is waited for, as long as Device.recover waits.
  module FileLock
    SECONDS = 10
    PAUSE = 0.02

    @taken = ObjectSpace::WeakMap.new

    class << self
      # file: an open File. path: what the error names. Returns the file. Raises UBLK::Error if another disk has it for
      # `seconds` on; if that is one of this process, at once. Errno where the file system has no locks.
      def take(file, path = file.path, seconds: SECONDS)
        # What has it may be a target of this process that nobody has any more: its file is closed with it.
        free?(file) || GC.start
        deadline = now + seconds
        until free?(file)
          raise Error, "#{path} is in use by another disk; stop it first" if taken_here?(file) || now >= deadline

          sleep PAUSE
        end
        @taken[file] = true
        file
      end

      private

      # Then it is taken.
      def free?(file) = file.flock(File::LOCK_EX | File::LOCK_NB)

      def taken_here?(file) = @taken.keys.any? { |other| !other.closed? && File.identical?(other, file) }

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
