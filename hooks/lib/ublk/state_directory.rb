# frozen_string_literal: true

module UBLK
  @state = nil
  @state_directory = nil

  class << self
    # The directory for what a hook keeps beside the data of its disk: a bitmap, an index. A frozen String, an absolute
    # path; the first call makes the directory, with mode 0700.
    #
    # In a worker it is /var/lib/ublk-ruby/NAME, keyed by the device's name since ids are used again. It lasts as long as
    # the device is configured, over crashes, stops and reboots, and is deleted with it. `ublkctl check` gives a hook one
    # that goes away with the check.
    #
    # In a plain program it is $XDG_STATE_HOME/ublk-ruby/PROGRAM, by default ~/.local/state/ublk-ruby/PROGRAM, for root as
    # well, and nobody deletes it. A program with several devices gives each its own: `UBLK.state_directory = path`
    # before it makes the target.
    #
    # Raises what mkdir(2) does.
    def state_directory
      @state_directory ||= (@state ? claim_state(*@state) : make_directories(default_state_directory)).dup.freeze
    end

    # path: absolute, a String; made when it is asked for. Not in a worker, where the service says which it is:
    # UBLK::Error.
    def state_directory=(path)
      raise Error, "state_directory= is for programs; here it is #{@state.first}" if @state
      raise ArgumentError, "state_directory must be an absolute path, not #{path.inspect[0, 80]}" unless absolute?(path)

      @state_directory = make_directories(path).dup.freeze
    end

    private

    def claim_state(path, owner)
      Sys.claim_state(path, owner)
    rescue Errno::ENOENT, Errno::EACCES, Errno::EROFS => e
      raise e.class, "#{path}: a directory for it can't be made; systemd-tmpfiles --create ublk-ruby.conf makes " \
                     "#{File.dirname(path)} and gives it to the user of the workers"
    rescue Errno::ENOTDIR
      raise Errno::ENOTDIR, "#{path}: something else is there; move it out of the way"
    end

    def default_state_directory
      base = ENV.fetch("XDG_STATE_HOME", "")
      base = File.join(Dir.home, ".local/state") unless absolute?(base)
      File.join(base, "ublk-ruby", program_name)
    end

    # "-e" and the like are no name.
    def program_name
      name = File.basename($PROGRAM_NAME, ".rb")
      name.match?(/\A[A-Za-z_][A-Za-z0-9._-]*\z/) ? name : "ruby"
    end

    def absolute?(path) = path.is_a?(String) && path.start_with?("/")

    def make_directories(path)
      make_directories(File.dirname(path)) unless File.directory?(File.dirname(path))
      Dir.mkdir(path, 0o700)
      path
    rescue Errno::EEXIST
      raise unless File.directory?(path)

      path
    end
  end
end
