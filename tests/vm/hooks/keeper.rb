# frozen_string_literal: true

require "digest"

# Has secrets, and says what they are like: see tests/vm/secret. Reads beyond 64 KiB fail, with the secret in all that is raised.
class Keeper < UBLK::Target
  recovery :reissue
  option :key, :secret, required: true
  option :token, :secret

  def initialize(key:, token: nil)
    @key = key
    @text = "#{key} #{digest(key)} #{token && digest(token)}\n"
    super(size: 1 << 20)
  end

  def read_only? = true

  def read(offset, length)
    return @text.b.ljust(length, "\0") if offset < 65_536

    Thread.new { raise "a thread had #{@key.value}" }.join if offset >= 131_072
    raise IOError, "no #{@key.value}, #{@key.value.unpack1("H*")}, #{[@key.value].pack("m0")}, not even #{@key.inspect}"
  end

  private

  def digest(secret) = Digest::SHA256.hexdigest(secret.value)
end
