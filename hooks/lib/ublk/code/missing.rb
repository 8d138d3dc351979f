# frozen_string_literal: true

require "ublk/code"

# Only where files of the hook's code are not on the disk any more, so that Ruby, which looks for a file before
# it asks for its code, would not find them.
module UBLK
  module Code
    class << self
      # What `require` or `load` of this name means, if that is missing.
      def find_missing(name, suffixes)
        directories = File.absolute_path?(name) ? [nil] : $LOAD_PATH
        directories.product(suffixes) do |directory, suffix|
          path = directory ? File.expand_path("#{name}#{suffix}", directory) : "#{name}#{suffix}"
          return path if missing?(path)
        end
        nil
      end

      # As `require` does. Whoever requires it meanwhile, from inside of it, goes on.
      def require_missing(path)
        $LOADED_FEATURES << path
        run(path)
        true
      rescue Exception # rubocop:disable Lint/RescueException: raised again
        $LOADED_FEATURES.delete(path)
        raise
      end
    end
  end
end

# Before RubyGems is loaded, which then puts its `require` round this one.
module Kernel
  alias ublk_code_require require
  alias ublk_code_load load
  remove_method :require_relative

  def require(name)
    ublk_code_require(name)
  rescue LoadError => e
    path = UBLK::Code.find_missing(e.path, ["", ".rb"]) if e.path == name.to_s
    raise unless path

    UBLK::Code.require_missing(path)
  end

  def require_relative(name)
    from = caller_locations(1, 1).first
    require(File.expand_path(name, File.dirname(from.absolute_path || from.path)))
  end

  def load(name, wrap = false)
    ublk_code_load(name, wrap)
  rescue LoadError => e
    path = UBLK::Code.find_missing(e.path, [""]) if e.path == name.to_s
    raise unless path

    UBLK::Code.run(path)
    true
  end

  private :ublk_code_require, :ublk_code_load, :require, :require_relative, :load
end
