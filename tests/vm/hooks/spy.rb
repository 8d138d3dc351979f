# frozen_string_literal: true

# Looks for the secrets of another device, whose worker has the same user: see tests/vm/secret.
class Spy < UBLK::Target
  option :victim, :integer, required: true, doc: "the device's id"
  option :pid, :integer, required: true, doc: "of its worker"
  option :own, :secret

  def initialize(victim:, pid:, own: nil)
    credential = "run/credentials/ublk-ruby-device@#{victim}.service/key"
    @text = "own #{own ? own.bytesize : "none"}\n"
    ["/#{credential}", "/proc/#{pid}/root/#{credential}", "/proc/#{pid}/cwd/#{credential}", "/proc/#{pid}/environ", "/proc/#{pid}/mem",
     "/proc/#{pid}/maps", "/etc/ublk-ruby/secrets/key"].each { |path| @text << "#{path}: #{try(path)}\n" }
    @text << "seen: #{Dir.glob("/run/credentials/*/*").join(" ")}\n"
    super(size: 1 << 20)
  end

  def read_only? = true
  def read(offset, length) = offset.zero? ? @text.b.ljust(length, "\0") : "\0".b * length

  private

  def try(path)
    File.open(path, "rb") { |file| file.readpartial(16) }
    "READ"
  rescue SystemCallError, EOFError => e
    e.class.to_s
  end
end
