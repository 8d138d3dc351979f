# frozen_string_literal: true

require "socket"

# A disk at the other end of a connection: see tests/vm/needs.
class Far < UBLK::Target
  network true
  recovery :reissue
  option :port, :integer, required: true

  def initialize(port:)
    @socket = TCPSocket.new("127.0.0.1", port)
    super(size: 1 << 20)
  end

  def read_only? = true

  def read(offset, length)
    @socket.write([offset, length].pack("Q>L>"))
    @socket.read(length)
  end
end
