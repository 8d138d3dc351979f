# frozen_string_literal: true

require_relative "test_helper"

class TestOption < Minitest::Test
  def parse(type, text) = UBLK::Option.new(:key, type).coerce(text)

  def assert_refused(type, value)
    error = assert_raises(UBLK::ArgumentsError, "#{type} took #{value.inspect}") { UBLK::Option.new(:key, type).coerce(value) }
    assert_includes error.message, '"key"'
    assert_includes error.message, UBLK::Types::TABLE[type].wants
  end

  def test_bytes
    { "0" => 0, "512" => 512, "1k" => 1024, "1 K" => 1024, "256M" => 256 << 20, "1GiB" => 1 << 30, "2tib" => 2 << 40,
      "15E" => 15 << 60, "18446744073709551615" => (1 << 64) - 1 }.each { |text, bytes| assert_equal bytes, parse(:bytes, text) }
    ["", " ", "-1", "+1", "1.5G", "1GB", "1KB", "1B", "0x10", "1_000", "16E", "18446744073709551616", "1M\n", "M", "9" * 400]
      .each { |text| assert_refused :bytes, text }
    [-1, 1 << 64, 1.0, nil, true, :"1M"].each { |value| assert_refused :bytes, value }
  end

  def test_integer
    { "0" => 0, "-12" => -12, "+7" => 7, "007" => 7 }.each { |text, number| assert_equal number, parse(:integer, text) }
    ["", "1.0", "1e3", "0x10", "12\n", "twelve"].each { |text| assert_refused :integer, text }
  end

  def test_bool
    assert_equal [true] * 4, %w[yes true on 1].map { |text| parse(:bool, text) }
    assert_equal [false] * 4, %w[no false off 0].map { |text| parse(:bool, text) }
    ["", "YES", "maybe"].each { |text| assert_refused :bool, text }
    [0, nil].each { |value| assert_refused :bool, value }
  end

  def test_float
    assert_equal 0.5, parse(:float, "0.5")
    assert_equal(-2e3, parse(:float, "-2e3"))
    ["", "nan", "inf", "half"].each { |text| assert_refused :float, text }
    assert_refused :float, Float::NAN
  end

  def test_duration
    { "2" => 2.0, "1.5s" => 1.5, "250ms" => 0.25, "5min" => 300.0, "5m" => 300.0, "1h" => 3600.0, "10 us" => 1e-5 }
      .each { |text, seconds| assert_in_delta seconds, parse(:duration, text), 1e-9 }
    ["", "-1s", "1 week", "s", "1s 2ms"].each { |text| assert_refused :duration, text }
    assert_equal 3, UBLK::Option.new(:key, :duration).coerce(3)
  end

  def test_path
    assert_equal "/srv/disk.img", parse(:path, "/srv/disk.img")
    ["", "disk.img", "./disk.img", "~/disk.img", "/srv/\0"].each { |text| assert_refused :path, text }
  end

  def test_dbus_types
    option = UBLK::Option.new(:key, :duration)
    assert_equal 1.5, option.from_dbus("t", "1500000")
    assert_equal 1.5, option.from_dbus("d", "1.5")
    assert_equal 1.5, option.from_dbus("s", "1500ms")
    error = assert_raises(UBLK::ArgumentsError) { option.from_dbus("u", "1") }
    assert_includes error.message, "(D-Bus type s, d, t), not D-Bus type u"
    error = assert_raises(UBLK::ArgumentsError) { UBLK::Option.new(:key, :bytes).from_dbus("t", "ten") }
    assert_includes error.message, "no value of D-Bus type t"
  end

  def test_description
    assert_equal "size (bytes, required)", UBLK::Option.new(:size, :bytes, required: true).to_s
    assert_equal "size (bytes, default 1048576, of the disk)", UBLK::Option.new(:size, :bytes, default: "1M", doc: "of the disk").to_s
    assert_equal "quiet (bool, default false)", UBLK::Option.new(:quiet, :bool, default: false).to_s
  end

  def test_bad_declarations
    ["Size", "1st", "a-b", "", "a" * 65, "é"].each { |name| assert_raises(ArgumentError, name) { UBLK::Option.new(name, :bytes) } }
    %w[queues class read_only id hook_timeout].each do |name|
      error = assert_raises(ArgumentError, name) { UBLK::Option.new(name, :bytes) }
      assert_includes error.message, "the service has one of this name"
    end
    assert_raises(ArgumentError) { UBLK::Option.new(:key, :blob) }
    assert_raises(ArgumentError) { UBLK::Option.new(:key, :bool, default: "perhaps") }
  end
end
