# frozen_string_literal: true

require "openssl"
require "socket"

# An HTTP server for tests: one file, with ranges, over connections that it keeps open. It misbehaves as it is told to:
#
#   whole        ignores Range, answers 200          500, 404     answers that, with the connection kept open
#   redirect     answers 302                         silent       doesn't answer
#   drop         closes without an answer            drop-kept    the same, but for the first request of each connection
#   close        closes after each answer, and does not say so beforehand
#   short        closes in the middle of the body    less, more   sends some bytes less, more, than it was asked for, and says so
#   longer       sends more than it says: chunked    shifted      sends another range, and says so
#   early        the range begins 512 bytes earlier
#   no-range     206 without Content-Range           encoded      says that the bytes are gzip's
#   changed      another ETag                        grown        another size
#   garbage      answers what is not HTTP            chunked      as it should be, but in chunks
#
# As a program: http_server.rb FILE PORT MODE-FILE LOG-FILE. MODE-FILE may hold a mode, LOG-FILE gets a line for each
# connection and each request.
class HttpServer
  attr_writer :mode
  # headers: of the latest request.
  attr_reader :port, :connections, :requests, :headers

  # tls: [certificate, key] for https.
  def initialize(file, port: 0, tls: nil)
    @file = File.open(file, "rb")
    @server = TCPServer.new("127.0.0.1", port)
    @port = @server.addr[1]
    @tls = tls
    @connections = @requests = 0
    @threads = [Thread.new { accept }]
  end

  def self.serve(file, **options)
    server = new(file, **options)
    yield server
  ensure
    server&.stop
  end

  def url(path = "/disk.img") = "#{@tls ? "https" : "http"}://127.0.0.1:#{port}#{path}"

  def stop
    @threads.each(&:kill).each(&:join)
    @server.close
    @file.close
  end

  private

  # For a subclass to override.
  attr_reader :mode

  def event(_name) = nil

  def accept
    loop do
      client = @server.accept
      @threads << Thread.new { serve(client) }
    end
  end

  def serve(client)
    client = secure(client) if @tls
    kept = false
    while (range = read_request(client))
      count(range, kept)
      break if (mode == "drop-kept" && kept) || answer(client, range) == :close

      kept = true
    end
  rescue SystemCallError, OpenSSL::SSL::SSLError
    nil # the client has gone
  ensure
    client.close
  end

  # A connection counts once something is asked on it.
  def count(range, kept)
    event("connection") unless kept
    event("request #{range}")
    @connections += 1 unless kept
    @requests += 1
  end

  def secure(client)
    context = OpenSSL::SSL::SSLContext.new
    context.cert, context.key = @tls
    OpenSSL::SSL::SSLSocket.new(client, context).tap { |socket| socket.sync_close = true }.accept
  end

  # The value of Range, "" without; nil once the client has closed.
  def read_request(client)
    client.gets or return
    headers = {}
    while (header = client.gets) && header != "\r\n"
      name, value = header.chomp.split(": ", 2)
      headers[name.downcase] = value
    end
    @headers = headers
    headers.fetch("range", "")
  end

  def answer(client, range)
    case mode
    when "silent" then sleep
    when "drop" then :close
    when "garbage" then client.write("What?\r\n\r\n") && :close
    when "500", "404" then reply(client, "#{mode} Of Course", {}, "no")
    when "redirect" then reply(client, "302 Found", { "Location" => "http://elsewhere/" }, "")
    else send_file(client, range)
    end
  end

  def send_file(client, range)
    size = @file.size + (mode == "grown" ? 512 : 0)
    facts = { "ETag" => mode == "changed" ? '"2"' : '"1"', "Last-Modified" => "Mon, 01 Jan 2024 00:00:00 GMT" }
    from, to = range.match(/\Abytes=(\d+)-(\d+)\z/)&.captures&.map(&:to_i)
    return reply(client, "200 OK", facts, @file.pread(@file.size, 0)) if mode == "whole" || !from

    send_range(client, facts, from, [to, size - 1].min, size)
  end

  def send_range(client, facts, from, to, size)
    to -= 8 if mode == "less"
    to += 8 if mode == "more"
    from += { "shifted" => 512, "early" => -512 }.fetch(mode, 0)
    to += 512 if mode == "shifted"
    facts["Content-Range"] = "bytes #{from}-#{to}/#{size}" unless mode == "no-range"
    facts["Content-Encoding"] = "gzip" if mode == "encoded"
    body = @file.pread(to - from + 1, from)
    return send_chunks(client, facts, body) if %w[chunked longer].include?(mode)

    reply(client, "206 Partial Content", facts, body)
  end

  def send_chunks(client, facts, body)
    body *= 2 if mode == "longer"
    headers = facts.merge("Transfer-Encoding" => "chunked")
    client.write(head("206 Partial Content", headers), body.scan(/.{1,1000}/mn).map { |s| "#{s.bytesize.to_s(16)}\r\n#{s}\r\n" }.join, "0\r\n\r\n")
  end

  def reply(client, status, facts, body)
    headers = facts.merge("Content-Length" => body.bytesize)
    body = body.byteslice(0, body.bytesize / 2) if mode == "short"
    client.write(head(status, headers), body)
    %w[short close].include?(mode) ? :close : :keep
  end

  def head(status, headers)
    "HTTP/1.1 #{status}\r\n#{headers.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n"
  end
end

# Told by files.
class HttpServerProgram < HttpServer
  def initialize(file, port, mode, log)
    @mode_file = mode
    @log = File.open(log, "a").tap { |f| f.sync = true }
    super(file, port: Integer(port))
  end

  private

  def mode = File.exist?(@mode_file) ? File.read(@mode_file).strip : nil
  def event(name) = @log.puts(name)
end

HttpServerProgram.new(*ARGV) && sleep if $PROGRAM_NAME == __FILE__
