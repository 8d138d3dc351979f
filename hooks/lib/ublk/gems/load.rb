# frozen_string_literal: true

# The first use of the constant Gem. RubyGems wraps the `require` that it finds: give it Ruby's own back.
module Kernel
  remove_method :gem, :require
  alias require ublk_original_require
  private :require
end

require "rubygems"
