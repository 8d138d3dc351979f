# frozen_string_literal: true

require_relative "test_helper"

# What the README shows is what examples/ has, and tests/check drives that.
class TestReadme < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  def test_its_hooks_are_the_examples
    blocks = File.read(File.join(ROOT, "README.md")).scan(/^```ruby\n(.*?)^```/m).flatten

    %w[zebra remember].each_with_index do |name, i|
      assert_equal File.read(File.join(ROOT, "examples", "#{name}.rb")), blocks[i]
    end
  end

  # The third is what a reader adds to the second.
  def test_its_policy_goes_on_top
    policy = File.read(File.join(ROOT, "README.md")).scan(/^```ruby\n(.*?)^```/m).flatten[2]

    assert_equal File.read(File.join(ROOT, "examples", "freeze.rb")),
                 "require_relative \"remember\"\n\n#{policy}"
  end
end
