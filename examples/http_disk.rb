require "ublk/autorun"
require "net/http"
require "openssl"

# An image on a web server, read-only, over connections that are kept open.
#
#   ublkctl create remote http_disk url=https://example.org/disk.img
#   ruby examples/http_disk.rb url=http://192.0.2.1/disk.img --queues 2
#
# Every answer is held against the first one. A server that ignores Range, sends another part than it was asked for, or
# has another image by now, as its size, ETag and Last-Modified tell, is an error and never wrong data.
class HttpDisk < UBLK::Target
  option :url, :string, required: true, doc: "of the image, http or https"
  option :timeout, :duration, default: "10s", doc: "how long the server may be silent"
  option :etag, :string, doc: "of the image that it must be; a worker that is started again takes any if not given"
  option :ca, :path, doc: "certificates to trust, PEM; the system's if not given"
  network true
  recovery :reissue                      # the image outlives the worker

  Image = Struct.new(:size, :etag, :last_modified) do
    def to_s = "#{size} bytes, ETag #{etag || "none"}, Last-Modified #{last_modified || "none"}"
  end

  def initialize(url:, timeout:, etag: nil, ca: nil)
    @url = parse(url)
    @settings = { use_ssl: @url.scheme == "https", ca_file: ca, open_timeout: timeout, ssl_timeout: timeout, read_timeout: timeout,
                  write_timeout: timeout, keep_alive_timeout: 60, max_retries: 0 }
    @connections = {}.compare_by_identity # by thread: each queue has its own
    read(0, 512)                          # sets @image
    raise ArgumentError, "etag: #{@url} has another image (#{@image})" unless [nil, @image.etag].include?(etag)

    super(size: @image.size)
  end

  def read_only? = true

  # A server may close a connection that it kept open whenever it likes: that is no error, once.
  def read(offset, length)
    2.times do |attempt|
      return get(offset, length)
    rescue Timeout::Error, Errno::ETIMEDOUT
      raise Errno::ETIMEDOUT, "#{@url} was silent for #{@settings[:read_timeout]} s"
    rescue Errno::EREMOTEIO
      raise
    rescue IOError, SystemCallError, SocketError, OpenSSL::SSL::SSLError, Net::HTTPBadResponse => e
      raise Errno::ENOLINK, "#{@url}: #{e.message}" if attempt == 1
    end
  end

  private

  def parse(url)
    URI.parse(url).tap { |uri| raise URI::InvalidURIError unless uri.is_a?(URI::HTTP) && uri.host }
  rescue URI::InvalidURIError
    raise ArgumentError, "url must be one of http or https, which #{url.inspect} is not"
  end

  def get(offset, length)
    data = String.new(capacity: length)
    range = "bytes=#{offset}-#{offset + length - 1}"
    request = Net::HTTP::Get.new(@url, "Range" => range, "Accept-Encoding" => "identity")
    connection.request(request) do |response| # its body is not here yet, and may be the whole image
      check(response, offset, length)
      response.read_body { |piece| (data << piece).bytesize <= length or refuse "sent more than it said" }
    end
    data.bytesize == length ? data : raise(EOFError, "the answer ended too early")
  end

  def connection
    @connections[Thread.current] ||= Net::HTTP.start(@url.hostname, @url.port, @settings)
  end

  def check(response, offset, length)
    refuse hint(response) unless response.is_a?(Net::HTTPPartialContent)
    first, last, size = response["Content-Range"].to_s.match(%r{\Abytes (\d+)-(\d+)/(\d+)\z})&.captures&.map(&:to_i)
    unless first == offset && last == offset + length - 1
      refuse "sent #{response["Content-Range"] || "an unknown range"} for #{length} bytes at #{offset}"
    end
    refuse "sends the image in #{response["Content-Encoding"]}" if response["Content-Encoding"]

    image = Image.new(size, response["ETag"], response["Last-Modified"])
    refuse "has another image (#{image}) than it had (#{@image})" unless image == (@image ||= image)
  end

  def hint(response)
    case response
    when Net::HTTPOK then "ignores Range, so no part of its image can be had"
    when Net::HTTPRedirection then "says #{response.code}: give #{response["Location"]} as url"
    else "says #{response.code} #{response.message}"
    end
  end

  # Closes the connection, with what is still to come.
  def refuse(why)
    raise Errno::EREMOTEIO, "#{@url}: the server #{why}"
  end
end
