# frozen_string_literal: true

require_relative "test_helper"

# What a script says outside its classes: use, run, option, arg.
class TestScript < Minitest::Test
  DISK = <<~RUBY
    class Disk < UBLK::Target
      option :size, :bytes, default: "1M"
      recovery :reissue
      attr_reader :other
      def initialize(size:) = (super; @data = "\\0".b * size)
      def read(offset, length) = @data.byteslice(offset, length)
      def write(offset, data) = (@data[offset, data.bytesize] = data).bytesize
    end
  RUBY

  def load_text(text, **arguments)
    Dir.mktmpdir do |directory|
      path = File.join(directory, "disk.rb")
      File.write(path, text)
      UBLK::Runtime.load(name: "disk", path: path, class_name: nil, device: "disk0", recovery: "default", read_only: false,
                         arguments: arguments.map { |name, value| [name.to_s, "s", value] })
    end
  end

  def chain(target)
    names = []
    while UBLK::Abilities.layer?(target)
      names << target.class.name[/\w+\z/].to_sym
      target = target.target
    end
    names << UBLK::Script.name_of(target.class).to_sym
  end

  def refused(text, word, error: UBLK::HookError, **arguments)
    raised = assert_raises(error) { load_text(text, **arguments) }
    assert_includes raised.message, word
  end

  def test_the_first_one_is_outermost
    facts = load_text("#{DISK}use Trace, ops: :flush\nuse Delay, seconds: 0\nrun Disk\nuse Stats\n")
    assert_equal %i[Trace Delay Stats Disk], chain(facts[:target])
    assert_equal [1 << 20, "reissue", false, false], facts.values_at(:size, :recovery, :can_discard, :can_write_zeroes)
  end

  def test_without_run
    assert_equal %i[Stats Disk], chain(load_text("#{DISK}use Stats\n")[:target])
  end

  def test_a_layer_of_the_script
    text = "class Quota < UBLK::Policy\n  def initialize(target, most:) = (super(target); @most = most)\n" \
           "  def before(op, offset, length) = (Errno::EDQUOT if op == :write && offset + length > @most)\nend\n" \
           "#{DISK}use Quota, most: arg(:quota)\noption :quota, :bytes, default: '64K'\n"
    target = load_text(text)[:target]
    assert_equal [512, -Errno::EDQUOT::Errno], [target.write(0, "x" * 512), target.write(65_536, "x" * 512)]
    assert_equal 512, load_text(text, quota: "128K")[:target].write(65_536, "x" * 512)
    refused(text, "it takes size (bytes, default 1048576), quota (bytes, default 65536)", colour: "red", error: UBLK::ArgumentsError)
  end

  def test_a_class_of_the_same_name_wins
    text = "class Cache < UBLK::Around\n  def mine? = true\nend\n#{DISK}use Cache\nuse UBLK::Layers::Cache\nrun Disk\n"
    target = load_text(text)[:target]
    assert_predicate target, :mine?
    assert_instance_of UBLK::Layers::Cache, target.target
  end

  def test_arguments_of_layers
    text = "#{DISK}option :iops, :integer\nuse RateLimit, iops: arg(:iops), bytes: '1M'\n" \
           "use Partition, offset: 0, length: arg(:size) { |size| size / 2 }\n"
    facts = load_text(text, size: "2M", iops: "5")
    assert_equal 1 << 20, facts[:size]
    assert_equal [0.2, 1.0 / (1 << 20)], facts[:target].instance_variable_get(:@costs)
    assert_equal [0.0, 1.0 / (1 << 20)], load_text(text)[:target].instance_variable_get(:@costs)
    refused(text, "wants an integer", error: UBLK::ArgumentsError, iops: "many")
  end

  def test_the_scripts_option_says_more_of_the_targets
    text = "#{DISK}option :size, :bytes, required: true\n"
    refused(text, "needs the option \"size\"", error: UBLK::ArgumentsError)
    assert_equal 4096, load_text(text, size: "4096")[:size]
  end

  def test_recovery_is_the_strictest
    strict = "class Strict < UBLK::Around\n  recovery :%s\nend\nuse Strict\n"
    assert_equal "none", load_text(DISK + format(strict, "none"))[:recovery]
    assert_equal "fail", load_text(DISK + format(strict, "fail"))[:recovery]
    loses = DISK.sub("recovery :reissue", "recovery :none")
    assert_equal "none", load_text(loses + format(strict, "reissue"))[:recovery]
    assert_equal "reissue", load_text("#{DISK}use Stats\n")[:recovery]
  end

  def test_abilities_through_a_stack
    discards = "#{DISK}class Disk\n  def discard(offset, length) = 0\nend\nuse Trace, ops: :flush\nuse Stats\n"
    assert_equal [true, false], load_text(discards).values_at(:can_discard, :can_write_zeroes)
    assert_equal [false, true], load_text("#{discards}use ReadOnly\n").values_at(:can_discard, :read_only)
    no_write = DISK.sub(/^  def write.*\n/, "")
    refused("#{no_write}use Stats\n", "Disk does not define write")
    assert load_text("#{no_write}use ReadOnly\n")[:read_only]
  end

  def test_mistakes
    refused("#{DISK}use String\n", "use takes a layer, a subclass of UBLK::Layer, not String")
    refused("#{DISK}use Disk\n", "use takes a layer")
    refused("#{DISK}use 5\n", "not Integer")
    refused("#{DISK}\nuse Delay, second: 1\n", "use Delay (line 10): ")
    refused("#{DISK}use RateLimit, iops: 0\n", "use RateLimit (line 9): iops must be above 0")
    refused("#{DISK}use RateLimit, iops: arg(:iopz)\n", "the hook has no option :iopz")
    refused("#{DISK}use Nonsense\n", "Nonsense", error: NameError)
    refused("#{DISK}option :queues, :integer\n", "the service has one", error: ArgumentError)
    assert_raises(NameError) { Trace }
    assert_raises(NameError) { UBLK::Layers::Nonsense }
    error = assert_raises(UBLK::HookError) { TOPLEVEL_BINDING.receiver.use(String) }
    assert_includes error.message, "use is for a hook script"
  end

  # With what is wrong below: it's the script where one has to look.
  def test_where_a_wrong_answer_comes_from
    load_text("use Trace, ops: :flush\n#{DISK}")
    file, line = UBLK::Runtime.describe(UBLK::ContractError.new("x"), :read)[4, 2]
    assert_equal ["disk.rb", 7], [File.basename(file), line]
  end

  # A worker whose hook uses no layer loads none.
  def test_layers_cost_nothing_unless_used
    path = File.join(ROOT, "hooks/stock/null.rb")
    code = "require 'ublk/runtime'; UBLK::Runtime.load(name: 'null', path: #{path.inspect}, class_name: nil, device: 'd', " \
           "arguments: [['size', 's', '1M']], recovery: 'default', read_only: false); " \
           "puts $LOADED_FEATURES.grep(%r{ublk/(layer|around|policy)|rubygems})"
    ruby = RbConfig.ruby
    assert_equal "", IO.popen([ruby, "--disable=gems", "-I#{File.join(ROOT, "hooks/lib")}", "-e", code], err: %i[child out], &:read)
  end
end
