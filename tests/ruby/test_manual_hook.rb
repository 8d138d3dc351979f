# frozen_string_literal: true

require "json"
require "open3"
require "tmpdir"
require_relative "test_helper"

# The code of ublk-hook(7), driven by `ublk-ruby-worker --check` as a reader's hook would be. Its commands are run by tests/vm/manual.
class TestManualHook < Minitest::Test
  PAGE = File.expand_path("../../hooks/ublk-hook.7.scd", __dir__)
  BLOCKS = File.read(PAGE).scan(/^```\n(.*?)^```$/m).flatten.freeze
  WORKER = ENV.fetch("UBLK_RUBY_WORKER")

  def block(beginning)
    found = BLOCKS.select { |text| text.start_with?(beginning) }
    assert_equal 1, found.size, beginning
    found[0]
  end

  # The hook has no faults.
  def check(code, **arguments)
    Dir.mktmpdir do |directory|
      hook, image = %w[hook.rb disk.img].map { |name| File.join(directory, name) }
      File.write(hook, code)
      File.write(image, "")
      File.truncate(image, 4 << 20)
      words = arguments.map { |key, value| "#{key}=#{value == :image ? image : value}" }
      out, err, status = Open3.capture3({ "TMPDIR" => directory }, WORKER, "--check", "--any-hook", "--json", hook, *words)
      assert_predicate status, :success?, "#{out}#{err}"
      assert_equal "pass", JSON.parse(out).fetch("result")
    end
  end

  def image = block("class Image")

  # The class alone: what comes after it is another page's layers.
  def image_class = image[/\A.*?^end\n/m]

  def test_every_block_is_driven
    known = ["class Image", "  def read_into", "class Bucket", "# ublkctl", "class MemoryDisk", "option :iops", "class Quota"]

    assert_equal known, BLOCKS.map { |text| known.find { |beginning| text.start_with?(beginning) } || text }
  end

  def test_the_synopsis = check(image, path: :image)

  def test_buffers
    check(image_class.sub(/^  def read\(.*?^  def write\(.*?\n/m, "").sub(/^end\n/, "#{block("  def read_into")}end\n"), path: :image)
  end

  def test_memory = check(block("class MemoryDisk"), size: "4M")

  def test_layers
    check("#{image_class}\n#{block("option :iops")}", path: :image, iops: 100_000)
  end

  def test_a_policy = check("#{image_class}\n#{block("class Quota")}\nrun Image\n", path: :image, quota: "4M")

  # The page leaves out what is not about secrets.
  def test_secrets
    rest = <<RUBY
    raise @client.key unless @client.key == "swordfish"
    super(size: 1 << 20)
  end

  def read(_offset, length) = "\\0".b * length
  def read_only? = true
end
RUBY
    code = block("class Bucket").sub("    ...\n") { rest }
    Dir.mktmpdir do |directory|
      File.write(File.join(directory, "key"), "swordfish\n", perm: 0o600)
      check("Client = Struct.new(:key, keyword_init: true)\n#{code}", key: File.join(directory, "key"))
    end
  end
end
