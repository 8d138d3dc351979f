# frozen_string_literal: true

require_relative "test_helper"
require "tempfile"
load File.join(ROOT, "examples/encrypted.rb")

class TestEncryptedDisk < Minitest::Test
  include Exercise

  # IEEE Std 1619-2007, annex B, vectors 10 to 14: XTS-AES-256 with data units of 512 bytes, by the number of the unit. All
  # have this key, and the bytes 0 to 255 twice as plain text. OpenSSL (evpciph_aes_common.txt) and Botan (xts.vec) have
  # them among their tests as well.
  VECTOR_KEY = "27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383279502884197169399375105820974944592"
  PLAIN = [*0..255, *0..255].pack("C*").freeze
  VECTORS = File.read(File.join(__dir__, "xts-aes-256-vectors")).scan(/^(\h+):\n((?:\h+\n)+)/)
                .to_h { |number, text| [number.hex, [text.delete("\n")].pack("H*")] }.freeze

  def key = [VECTOR_KEY].pack("H*")
  def secret(bytes = key) = UBLK::Secret.new(bytes)

  def with_disk(size: SIZE)
    Tempfile.create("disk.img", binmode: true) do |file|
      file.truncate(size)
      yield EncryptedDisk.new(path: file.path, key: secret), file
    end
  end

  def test_there_are_five_vectors
    assert_equal [0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff], VECTORS.keys
    assert_equal [512], VECTORS.values.map(&:bytesize).uniq
  end

  # Without 2 TiB of disk.
  def test_vectors
    with_disk do |disk|
      VECTORS.each do |number, cipher|
        assert_equal cipher, disk.send(:crypt, :encrypt, number * 512, PLAIN), number
        assert_equal PLAIN, disk.send(:crypt, :decrypt, number * 512, cipher), number
      end
    end
  end

  def test_a_vector_on_the_disk
    with_disk do |disk, file|
      disk.write(0xff * 512, PLAIN.dup)
      assert_equal VECTORS[0xff], File.binread(file.path, 512, 0xff * 512)
      assert_equal PLAIN, disk.read(0xff * 512, 512)
    end
  end

  def test_it_is_a_disk
    with_disk do |disk, file|
      assert_equal SIZE, disk.size
      disk.write(0, "\0".b * SIZE)
      exercise(disk, "\0".b * SIZE, operations: %i[read write])
      data = Random.new(9).bytes(65_536)
      disk.write(4096, data.dup)
      assert_same_bytes data, EncryptedDisk.new(path: file.path, key: secret).read(4096, 65_536)
    end
  end

  # The same bytes look different in each sector.
  def test_no_two_sectors_are_alike
    with_disk do |disk, file|
      disk.write(0, "\0".b * SIZE)
      sectors = File.binread(file.path).scan(/.{512}/mn)
      assert_equal SIZE / 512, sectors.uniq.size
    end
  end

  def test_one_request_or_many
    data = Random.new(8).bytes(65_536)
    with_disk do |disk, file|
      disk.write(512, data.dup)
      whole = File.binread(file.path)
      (0...data.bytesize).step(512) { |at| disk.write(512 + at, data.byteslice(at, 512)) }
      assert_same_bytes whole, File.binread(file.path)
    end
  end

  # Threads take turns wherever Ruby calls into C, between a tweak and its sector as well.
  def test_queues
    turns = TracePoint.new(:c_return) { Thread.pass }
    parts = Array.new(4) { |t| Random.new(t).bytes(16_384) }
    with_disk do |disk|
      turns.enable
      parts.each_with_index.map { |part, t| Thread.new { disk.write(t * 16_384, part.dup) } }.each(&:join)
      turns.disable
      assert_same_bytes parts.join, disk.read(0, 65_536)

      turns.enable
      found = Array.new(4) { |t| Thread.new { disk.read(t * 16_384, 16_384) } }.map(&:value)
      turns.disable
      assert_same_bytes parts.join, found.join
    ensure
      turns.disable
    end
  end

  # Both would show which sectors are in use; without them the kernel writes zeroes, and those are encrypted.
  def test_nothing_is_discarded
    with_disk do |disk|
      refute UBLK::Abilities.supports?(disk, :discard)
      refute UBLK::Abilities.supports?(disk, :write_zeroes)
    end
  end

  def test_keys
    Tempfile.create do |file|
      file.truncate(SIZE)
      { key + "x" => "65", key[0, 63] => "63", key[0, 32] * 2 => "equal halves" }.each do |bytes, message|
        error = assert_raises(ArgumentError) { EncryptedDisk.new(path: file.path, key: secret(bytes)) }
        assert_includes error.message, message
        refute_includes error.message, bytes
      end
    end
  end

  def test_a_file_that_is_cut_off
    with_disk do |disk, file|
      file.truncate(SIZE / 2)
      assert_raises(EOFError) { disk.read(SIZE / 2 - 512, 1024) }
    end
  end
end
