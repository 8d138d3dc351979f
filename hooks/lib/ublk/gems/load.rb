# frozen_string_literal: true

# The first use of the constant Gem; other threads that use it wait until this is through. RubyGems puts its
# `require` round the one that it finds: put Ruby's own there in the end, unless something else is in between.
UBLK::Gems.loading do
  Kernel.module_eval { remove_method :gem }
  Kernel.send(:ublk_original_require, "rubygems")
  Kernel.module_eval do
    if instance_method(:gem_original_require) == instance_method(:ublk_lazy_require)
      alias_method :gem_original_require, :ublk_original_require
      private :gem_original_require
      remove_method :ublk_original_require
    end
    remove_method :ublk_lazy_require
  end
end
