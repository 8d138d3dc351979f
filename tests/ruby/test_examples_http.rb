# frozen_string_literal: true

require_relative "test_helper"
require_relative "../vm/examples.d/http_server"
require "tempfile"
load File.join(ROOT, "examples/http_disk.rb")

class TestHttpDisk < Minitest::Test
  BYTES = Random.new(7).bytes(1 << 20).freeze

  def setup
    @file = Tempfile.new("disk.img", binmode: true)
    @file.write(BYTES)
    @file.flush
  end

  def teardown = @file.close!

  def serve(**options)
    HttpServer.serve(@file.path, **options) { |server| yield server, HttpDisk.new(url: server.url, timeout: 2) }
  end

  def assert_same(offset, length, disk)
    assert BYTES.byteslice(offset, length) == disk.read(offset, length), "#{length} bytes at #{offset} differ"
  end

  # What a disk that could be made says once the server does this.
  def fault(mode, error = Errno::EREMOTEIO)
    serve do |server, disk|
      server.mode = mode
      raised = assert_raises(error, mode) { disk.read(4096, 8192) }
      assert_includes raised.message, server.url
      server.mode = nil
      assert_same 4096, 8192, disk # it was nothing but that request
      return raised.message
    end
  end

  def test_reads
    serve do |_, disk|
      assert_equal BYTES.bytesize, disk.size
      assert disk.read_only?
      [[0, 512], [512, 4096], [BYTES.bytesize - 512, 512], [0, BYTES.bytesize]].each { |offset, length| assert_same offset, length, disk }
      assert_equal Encoding::BINARY, disk.read(0, 512).encoding
    end
  end

  def test_one_connection_is_enough
    serve do |server, disk|
      10.times { |i| assert_same i * 512, 512, disk }
      assert_equal [1, 11], [server.connections, server.requests]
      assert_equal "identity", server.headers["accept-encoding"]
    end
  end

  def test_a_connection_for_each_thread
    serve do |server, disk|
      Array.new(4) { |t| Thread.new { 50.times { |i| assert_same (i * 4 + t) * 1024, 1024, disk } } }.each(&:join)
      assert_equal 5, server.connections
    end
  end

  def test_connections_that_the_server_closes
    serve do |server, disk|
      %w[close drop-kept].each do |mode|
        server.mode = mode
        5.times { |i| assert_same i * 512, 512, disk }
      end
      # One more where the end of a connection is seen only by the request that is sent over it.
      assert_includes 10..11, server.connections
    end
  end

  def test_a_server_that_never_answers
    assert_includes fault("drop", Errno::ENOLINK), "end of file"
    assert_includes fault("garbage", Errno::ENOLINK), "wrong status line"
    assert_includes fault("short", Errno::ENOLINK), "ended too early"
  end

  def test_a_silent_server
    HttpServer.serve(@file.path) do |server|
      disk = HttpDisk.new(url: server.url, timeout: 0.2)
      server.mode = "silent"
      error = assert_raises(Errno::ETIMEDOUT) { disk.read(0, 512) }
      assert_includes error.message, "silent for 0.2 s"
      assert_equal 2, server.requests # the wait is not doubled
      server.mode = nil
      assert_same 0, 512, disk
    end
  end

  def test_wrong_answers
    assert_includes fault("whole"), "ignores Range"
    assert_includes fault("500"), "500 Of Course"
    assert_includes fault("404"), "404 Of Course"
    assert_includes fault("redirect"), "give http://elsewhere/ as url"
    assert_includes fault("less"), "sent bytes 4096-12279/1048576 for 8192 bytes at 4096"
    assert_includes fault("more"), "sent bytes 4096-12295/1048576"
    assert_includes fault("shifted"), "sent bytes 4608-12799/1048576"
    assert_includes fault("early"), "sent bytes 3584-12287/1048576"
    assert_includes fault("no-range"), "an unknown range"
    assert_includes fault("longer"), "more than it said"
    assert_includes fault("encoded"), "gzip"
  end

  def test_an_image_that_changes
    assert_includes fault("changed"), '(1048576 bytes, ETag "2", Last-Modified Mon'
    assert_includes fault("grown"), "1049088"
  end

  def test_an_image_that_is_pinned
    HttpServer.serve(@file.path) do |server|
      assert_equal BYTES.bytesize, HttpDisk.new(url: server.url, timeout: 2, etag: '"1"').size
      server.mode = "changed"
      error = assert_raises(ArgumentError) { HttpDisk.new(url: server.url, timeout: 2, etag: '"1"') }
      assert_includes error.message, 'another image (1048576 bytes, ETag "2"'
    end
  end

  def test_chunks
    serve do |server, disk|
      server.mode = "chunked"
      assert_same 512, 65_536, disk
    end
  end

  # The server starts on an answer as large as the image, and must not be made to send it.
  def test_an_answer_that_is_not_wanted_is_not_read
    @file.truncate(1 << 32)
    HttpServer.serve(@file.path) do |server|
      disk = HttpDisk.new(url: server.url, timeout: 2)
      assert_equal 1 << 32, disk.size
    end
  end

  def test_what_no_disk_can_be_made_of
    HttpServer.serve(@file.path) do |server|
      server.mode = "whole"
      error = assert_raises(Errno::EREMOTEIO) { HttpDisk.new(url: server.url, timeout: 2) }
      assert_includes error.message, "ignores Range"
      server.mode = nil
      @file.truncate(1000)
      assert_includes assert_raises(ArgumentError) { HttpDisk.new(url: server.url, timeout: 2) }.message, "multiple of 512"
    end
    gone = assert_raises(Errno::ENOLINK) { HttpDisk.new(url: "http://127.0.0.1:1/", timeout: 2) }
    assert_includes gone.message, "http://127.0.0.1:1/: "
    ["ftp://example.org/", "/srv/disk.img", "http:", "http://no host/"].each do |url|
      assert_includes assert_raises(ArgumentError, url) { HttpDisk.new(url: url, timeout: 2) }.message, url
    end
  end

  def test_https
    certificate, key = authority
    Tempfile.create do |pem|
      File.write(pem.path, certificate.to_pem)
      HttpServer.serve(@file.path, tls: [certificate, key]) do |server|
        disk = HttpDisk.new(url: server.url, timeout: 2, ca: pem.path)
        3.times { |i| assert_same i * 4096, 4096, disk }
        assert_equal 1, server.connections
        server.mode = "drop-kept"
        assert_same 0, 512, disk

        error = assert_raises(Errno::ENOLINK) { HttpDisk.new(url: server.url, timeout: 2) }
        assert_includes error.message, "certificate verify failed"
      end
    end
  end

  # One for 127.0.0.1 that nobody has signed but itself.
  def authority
    key = OpenSSL::PKey::EC.generate("prime256v1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = 1
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=test")
    certificate.public_key = key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    extensions = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
    certificate.add_extension(extensions.create_extension("basicConstraints", "CA:TRUE", true))
    certificate.add_extension(extensions.create_extension("subjectAltName", "IP:127.0.0.1"))
    [certificate.sign(key, "SHA256"), key]
  end
end
