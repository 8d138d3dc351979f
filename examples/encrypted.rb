require "ublk/autorun"
require "openssl"

# A disk in a file that holds what AES-256-XTS makes of each sector. `cryptsetup open --type plain --cipher
# aes-xts-plain64 --key-size 512 --key-file KEY` reads what this writes, and the other way round.
#
#   (umask 077; head -c 64 /dev/urandom >/etc/ublk-ruby/secrets/disk)
#   truncate -s 1G /srv/disk.img && chown ublk-ruby /srv/disk.img
#   ublkctl create vault encrypted path=/srv/disk.img key=/etc/ublk-ruby/secrets/disk
#   ruby examples/encrypted.rb path=/srv/disk.img key=/etc/ublk-ruby/secrets/disk
#
# Who has the file can't read it, but sees which sectors change, and can put old ones back unnoticed. Discards would show
# which ones are in use, and holes read as noise: so there are none, and zeroes are written as everything else is.
class EncryptedDisk < UBLK::Target
  SECTOR = 512

  option :path, :path, required: true, doc: "of the encrypted image"
  option :key, :secret, required: true, doc: "64 bytes: a key for the data and one for the sectors' numbers"
  recovery :reissue                      # the file outlives the worker, and a write that is done twice is done

  def initialize(path:, key:)
    @key = check(key.value)
    @ciphers = {}.compare_by_identity    # by thread: an OpenSSL::Cipher has a state, and each queue has its own
    @file = File.open(path, read_only? ? "rb" : "r+b")
    super(size: @file.size)
  end

  def read(offset, length)
    data = UBLK::Sys.pread(@file, length, offset)
    raise EOFError, "#{@file.path} was cut off" if data.bytesize < length

    crypt(:decrypt, offset, data)
  end

  def write(offset, data) = UBLK::Sys.pwrite(@file, crypt(:encrypt, offset, data), offset)
  def flush = @file.fdatasync
  def read_only? = UBLK.read_only?

  private

  def check(key)
    raise ArgumentError, "key has to be of 64 bytes, and has #{key.bytesize}" unless key.bytesize == 64
    raise ArgumentError, "key has two equal halves, which makes XTS weak: take 64 random bytes" if key[0, 32] == key[32, 32]

    key
  end

  def cipher(direction)
    (@ciphers[Thread.current] ||= {})[direction] ||=
      OpenSSL::Cipher.new("aes-256-xts").public_send(direction).tap { |cipher| cipher.key = @key }
  end

  # The tweak of a sector is its number, as "plain64" has it: 64 bits, little endian, then as many zeroes.
  def crypt(direction, offset, data)
    cipher = cipher(direction)
    count = data.bytesize / SECTOR
    tweaks = [*offset / SECTOR...offset / SECTOR + count].pack("Q<x8" * count)
    result = String.new(capacity: data.bytesize)
    buffer = String.new                  # the same for all sectors
    count.times do |i|
      cipher.iv = tweaks.byteslice(i * 16, 16)
      result << cipher.update(data.byteslice(i * SECTOR, SECTOR), buffer)
    end
    result
  end
end
