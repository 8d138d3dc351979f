# frozen_string_literal: true

require_relative "test_helper"
require "open3"
require "rbconfig"

# Secrets: where they come from, and that nothing gives them away.
class TestSecret < Minitest::Test
  BYTES = "correct \xffhorse\0\n".b.freeze

  def in_directory = Dir.mktmpdir { |directory| yield directory }

  def write(directory, name, bytes, mode = 0o600)
    File.join(directory, name).tap do |path|
      File.binwrite(path, bytes)
      File.chmod(mode, path)
    end
  end

  def test_an_object
    secret = UBLK::Secret.new(BYTES.dup.force_encoding("UTF-8"), name: :key)
    assert_equal [BYTES, Encoding::BINARY, true, BYTES.bytesize],
                 [secret.value, secret.value.encoding, secret.value.frozen?, secret.bytesize]
    assert_equal ["[secret key]"] * 3, [secret.to_s, secret.inspect, "#{secret}"]
    assert_equal "[secret]", UBLK::Secret.new("x").to_s
    assert_raises(TypeError) { "key: " + secret } # rubocop:disable Style/StringConcatenation: what is tested
    assert_raises(TypeError) { Marshal.dump([secret]) }
    require "yaml"
    assert_raises(TypeError) { YAML.dump([secret]) }
  end

  def test_equality
    secret = UBLK::Secret.new("swordfish")
    assert_equal secret, UBLK::Secret.new("swordfish", name: "other")
    ["swordfisH", "swordfis", "swordfish\n"].each { |other| refute_equal secret, UBLK::Secret.new(other) }
    refute_equal secret, "swordfish"
  end

  def test_size
    ["", "x" * (UBLK::Secret::SIZE_MAX + 1)].each { |bytes| assert_raises(ArgumentError) { UBLK::Secret.new(bytes) } }
    [nil, :secret, 5].each { |value| assert_raises(ArgumentError) { UBLK::Secret.new(value) } }
    assert_equal UBLK::Secret::SIZE_MAX, UBLK::Secret.new("x" * UBLK::Secret::SIZE_MAX).bytesize
  end

  def test_file
    in_directory do |directory|
      path = write(directory, "key", BYTES)
      File.symlink("key", File.join(directory, "link"))
      secret = UBLK::Secret.file(path)
      assert_equal [BYTES, "[secret key]"], [secret.value, secret.to_s]
      assert_equal secret, UBLK::Secret.file(File.join(directory, "link"))
      [0o640, 0o604, 0o660, 0o602, 0o610, 0o644].each do |mode|
        error = assert_raises(ArgumentError) { UBLK::Secret.file(write(directory, "open", BYTES, mode)) }
        assert_match(/others can read or change #{directory}\/open.*chmod 600/, error.message)
      end
      if Process.euid.zero?
        File.chown(65_534, nil, write(directory, "nobodys", BYTES))
        assert_raises(ArgumentError) { UBLK::Secret.file(File.join(directory, "nobodys")) }
      end
      assert_raises(ArgumentError) { UBLK::Secret.file(directory) }
      assert_raises(ArgumentError) { UBLK::Secret.file(write(directory, "empty", "")) }
      assert_raises(ArgumentError) { UBLK::Secret.file(write(directory, "big", "x" * (UBLK::Secret::SIZE_MAX + 1))) }
      File.mkfifo(File.join(directory, "fifo"), 0o600)
      assert_raises(ArgumentError) { UBLK::Secret.file(File.join(directory, "fifo")) }
      assert_raises(Errno::ENOENT) { UBLK::Secret.file(File.join(directory, "nothing")) }
    end
  end

  def test_option
    option = UBLK::Option.new(:key, :secret, required: true, doc: "of the account")
    assert_equal "key (secret, required, of the account)", option.to_s
    secret = UBLK::Secret.new("swordfish")
    assert_same secret, option.coerce(secret)
    ["vault", "/etc/ublk-ruby/secrets/key", "a.b-c_D"].each do |text|
      assert_equal "[reference to a secret]", option.from_dbus("s", text).inspect
    end
    ["sword fish", "c3dvcmQgZmlzaA==", "", "-----BEGIN KEY-----\nabc\n", "/a/../b", "/a b", "\xff", "a" * 256, "../key"].each do |text|
      error = assert_raises(UBLK::ArgumentsError, text) { option.from_dbus("s", text) }
      assert_includes error.message, "never give the secret itself"
      refute_includes error.message.b, text.b unless text.empty?
    end
    error = assert_raises(UBLK::ArgumentsError) { option.from_dbus("t", "1234567") }
    refute_includes error.message, "1234567"
    assert_raises(UBLK::ArgumentsError) { option.coerce(1_234_567) }.then { |e| refute_includes e.message, "1234567" }
    error = assert_raises(ArgumentError) { UBLK::Option.new(:key, :secret, default: "/etc/key") }
    assert_includes error.message, "has no default"
  end

  # What it looks like in a message; what must not be left of it.
  def test_concealment
    key = "p/ss w\xf6rd+~".b
    UBLK::Secret.new("#{key}\n", name: "key")
    [key, "#{key}\n", key.inspect, key.dump, key.unpack1("H*"), key.unpack1("H*").upcase, [key].pack("m0"),
     [key].pack("m0").tr("+/", "-_").delete("="), ["#{key}\n"].pack("m0"), "p%2Fss%20w%F6rd%2B~"].each do |form|
      text = described("got #{form.b} here".b)
      assert_includes text, "[secret key]", form
      ["p/ss", "w\\xF6rd", "702f7373", "cC9zcy", "p%2Fss"].each { |part| refute_includes text, part, form }
    end
    assert_equal "nothing to hide", described("nothing to hide")
  end

  def test_concealment_of_lines
    pem = "-----BEGIN KEY-----\n#{["0123456789abcdef" * 6].pack("m")}-----END KEY-----\n"
    UBLK::Secret.new(pem, name: "pem")
    pem.lines(chomp: true).each { |line| assert_equal "line [secret pem]", described("line #{line}") }
    [pem].pack("m").lines(chomp: true).each { |line| assert_equal "line [secret pem]", described("line #{line}") if line.size >= 8 }
  end

  def test_concealment_by_chance
    UBLK::Secret.new("ant", name: "short")
    assert_equal "an elephant and an ant", described("an elephant and an ant")
  end

  def described(message) = UBLK::Runtime.describe(RuntimeError.new(message), nil)[3]

  def test_of_an_exception
    UBLK::Secret.new("swordfish-17", name: "key")
    error = assert_raises(RuntimeError) { eval("raise 'no swordfish-17'", binding, "/swordfish-17/hook.rb", 3) } # rubocop:disable Style/EvalWithLocation, Security/Eval
    parts = UBLK::Runtime.describe(error, nil)
    assert_equal "no [secret key]", parts[3]
    assert_equal "no [secret key]", UBLK::Native.describe(error, nil)[3]
    assert_includes parts[6], "/[secret key]/hook.rb:3"
    refute_includes parts.join, "swordfish-17"
    named = Class.new(StandardError) { def self.to_s = "Swordfish::swordfish-17" }
    refute_includes UBLK::Runtime.describe(named.new("x"), nil).join, "swordfish-17"
    # Longer than a message may be: what is cut is cut afterwards.
    long = UBLK::Runtime.describe(RuntimeError.new("#{"x" * 990}swordfish-17"), nil)[3]
    refute_includes long, "swordfish"
  end

  SCRIPT = <<~RUBY
    class Keeper < UBLK::Target
      option :key, :secret, required: true
      option :token, :secret
      attr_reader :key, :token
      def initialize(key:, token: nil)
        @key, @token = key, token
        super(size: 1 << 20)
      end
      def read(offset, length) = nil
      def read_only? = true
    end
  RUBY

  def load_with(arguments, grants)
    in_directory do |directory|
      path = write(directory, "keeper.rb", SCRIPT)
      UBLK::Runtime.load(name: "keeper", path: path, class_name: nil, device: "disk0", recovery: "default", read_only: false,
                         arguments: arguments.map { |name, value| [name, "s", value] }, grants: grants)[:target]
    end
  ensure
    $stderr = STDERR
  end

  def grants(credentials, *secrets) = { network: false, jit: false, credentials: credentials, secrets: secrets }

  def test_in_a_unit
    in_directory do |credentials|
      write(credentials, "key", BYTES)
      write(credentials, "vault", "x1")
      target = load_with({ "key" => "/srv/key", "token" => "vault" }, grants(credentials, "key", "token"))
      assert_equal [BYTES, "[secret key]"], [target.key.value, target.key.to_s]
      assert_equal ["x1", "[secret token]"], [target.token.value, target.token.to_s]
    end
  end

  def missing(arguments, grants) = assert_raises(UBLK::NeedsError) { load_with(arguments, grants) }.needs

  def test_needs
    both = { "key" => "/srv/key", "token" => "vault" }
    assert_equal %w[secret:key secret:token], missing(both, grants(nil))
    in_directory do |credentials|
      assert_equal %w[secret:key secret:token], missing(both, grants(credentials))
      assert_equal %w[secret:key secret:token], missing(both, grants(credentials, "key", "token"))
      # Set by the administrator: noted, not loaded. That one has the option's name by chance.
      write(credentials, "vault", "x")
      write(credentials, "key", "x")
      assert_equal %w[secret:key loaded:token], missing(both, grants(credentials))
      assert_equal %w[loaded:token], missing(both, grants(credentials, "key"))
      write(credentials, "key", "")
      error = assert_raises(UBLK::ArgumentsError) { load_with({ "key" => "/srv/key" }, grants(credentials, "key")) }
      assert_includes error.message, 'option "key": a secret has 1 to'
    end
  end

  # Looked at for a unit that is another's: what that is known to need it has.
  def test_needs_of_another_unit
    in_directory do |directory|
      path = write(directory, "keeper.rb", SCRIPT)
      examine = lambda do |*secrets|
        UBLK::Runtime.examine(name: "keeper", path: path, class_name: nil, device: "disk0", recovery: "default", read_only: false,
                              arguments: [%w[key s /srv/key], %w[token s vault]], grants: grants(nil, *secrets))
      end
      assert_nil examine.call("key", "token")
      assert_equal %w[secret:token], assert_raises(UBLK::NeedsError) { examine.call("key") }.needs
    end
  end

  def test_too_many
    many = (1..9).map { |n| "option :k#{n}, :secret\n" }.join
    in_directory do |directory|
      path = write(directory, "many.rb", "#{many}class Many < UBLK::Target\nend\n")
      error = assert_raises(UBLK::ArgumentsError) do
        UBLK::Runtime.load(name: "many", path: path, class_name: nil, device: "disk0", recovery: "default", read_only: false,
                           arguments: (1..9).map { |n| ["k#{n}", "s", "vault"] }, grants: grants(nil))
      end
      assert_includes error.message, "more than 8 secrets"
    end
  end

  def test_without_a_unit
    in_directory do |directory|
      target = load_with({ "key" => write(directory, "key", BYTES) }, nil)
      assert_equal BYTES, target.key.value
      error = assert_raises(UBLK::ArgumentsError) { load_with({ "key" => write(directory, "open", BYTES, 0o644) }, nil) }
      assert_includes error.message, 'option "key": others can read'
      error = assert_raises(UBLK::ArgumentsError) { load_with({ "key" => "/sw/ordfish" }, nil) }
      assert_includes error.message, 'option "key": the file can\'t be read: No such file'
      refute_includes error.message, "ordfish"
      error = assert_raises(UBLK::ArgumentsError) { load_with({ "key" => "swordfish" }, nil) }
      assert_includes error.message, "must be the path of a file"
      refute_includes error.message, "swordfish"
    end
  end

  # What Ruby itself says of an exception in a thread, and of one at the end.
  def test_standard_error
    program = <<~'RUBY'
      require "ublk/secret/output"
      UBLK::Secret.new("swordfish-17\nsecond line of it\n", name: "key")
      UBLK::Secret::Output.install
      UBLK::Secret::Output.install
      Thread.new { raise "no swordfish-17\nsecond line of it" }.join rescue nil
      warn "warned swordfish-17"
      $stderr.puts ["put", ["swordfish-17"]]
      $stderr.print("printed ", "swordfish-17", "\n")
      $stderr << "appended swordfish-17\n"
      $stderr.printf("%s\n", "formatted swordfish-17")
      $stderr.puts
      $stderr.sync = true
      raise "last swordfish-17"
    RUBY
    _, errors, = Open3.capture3(RbConfig.ruby, "-w", "-I#{File.join(ROOT, "hooks/lib")}", "-e", program)
    refute_match(/swordfish|second line/, errors)
    %w[no warned put printed appended formatted last].each { |word| assert_match(/#{word}\s+\[secret key\]/, errors) }
  end
end
