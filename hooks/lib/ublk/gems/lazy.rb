# frozen_string_literal: true

require "ublk/gems"

UBLK::Gems::CONSTANTS.each do |name, library|
  Object.autoload(name, library) unless Object.const_defined?(name)
end

# Until RubyGems is loaded; ublk/gems/load takes all of it away again.
module Kernel
  alias ublk_original_require require

  def require(path)
    name = path.respond_to?(:to_path) ? path.to_path : path
    if !name.is_a?(String) || name.start_with?("ublk/") || UBLK::Gems.passive?
      return ublk_original_require(name)
    end

    if UBLK::Gems.first?(name) && UBLK::Gems.load
      return name == "rubygems" ? false : ::Kernel.instance_method(:require).bind_call(self, name)
    end

    begin
      ublk_original_require(name)
    rescue LoadError => e
      raise unless e.path == name && UBLK::Gems.load

      ::Kernel.instance_method(:require).bind_call(self, name)
    end
  end

  def gem(name, *requirements)
    UBLK::Gems.load or raise LoadError, "there is no RubyGems here"
    ::Kernel.instance_method(:gem).bind_call(self, name, *requirements)
  end

  alias ublk_lazy_require require
  private :ublk_original_require, :ublk_lazy_require, :require, :gem
end
