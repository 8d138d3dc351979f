# frozen_string_literal: true

require_relative "test_helper"

class TestTarget < Minitest::Test
  Plain = Class.new(UBLK::Target)
  Locked = Class.new(UBLK::Target) { def read_only? = true }
  Coarse = Class.new(UBLK::Target) { def logical_block_size = 4096 }

  def test_defaults
    target = Plain.new(size: 1 << 20)
    assert_equal [1 << 20, 512, 4096, false, false],
                 [target.size, target.logical_block_size, target.physical_block_size, target.read_only?, target.rotational?]
    assert_equal 0, target.flush
    assert_raises(Errno::EOPNOTSUPP) { target.discard(0, 512) }
    assert_raises(Errno::EOPNOTSUPP) { target.write_zeroes(0, 512) }
    assert_raises(NotImplementedError) { target.read(0, 512) }
    assert_raises(NotImplementedError) { target.write(0, "") }
    assert_raises(Errno::EROFS) { Locked.new(size: 512).write(0, "") }
  end

  def test_sizes
    [0, -512, 1, 513, 1 << 63, (1 << 64) - 1, 512.0, "512", nil].each do |size|
      error = assert_raises(ArgumentError, size.inspect) { Plain.new(size: size) }
      assert_includes error.message, "size must be"
    end
    assert_equal (1 << 63) - 512, Plain.new(size: (1 << 63) - 512).size
    assert_raises(ArgumentError) { Coarse.new(size: 512) }
    assert_equal 4096, Coarse.new(size: 4096).size
  end

  def test_declarations
    base = Class.new(UBLK::Target) do
      option :size, :bytes, required: true
      recovery :fail
      concurrency 4
      network true
    end
    derived = Class.new(base) do
      option :path, :path
      recovery :reissue
      network false
    end
    assert_equal [%i[size], %i[size path]], [base.options.keys, derived.options.keys]
    assert_equal [:none, :fail, :reissue], [UBLK::Target.recovery, base.recovery, derived.recovery]
    assert_equal [1, 4, 4], [UBLK::Target.concurrency, base.concurrency, derived.concurrency]
    assert_equal [false, true, false], [UBLK::Target.network, base.network, derived.network]
    assert_equal [false, false], [UBLK::Target.jit, derived.jit]
    assert_empty UBLK::Target.options
  end

  def test_wrong_declarations
    assert_raises(ArgumentError) { Class.new(UBLK::Target) { recovery :sometimes } }
    assert_raises(ArgumentError) { Class.new(UBLK::Target) { concurrency 0 } }
    assert_raises(ArgumentError) { Class.new(UBLK::Target) { concurrency "2" } }
  end
end
