# Données gardées: a source of UTF-8, payloads of any byte. Keeps every String that it was ever given to write, with its CRC, and
# holds all of them against it as soon as there is a file CHECK: what it found is then in that file's place, CHECK.result.
require "zlib"

class Payloads < UBLK::Target
  option :size, :bytes, required: true
  option :check, :path, required: true

  GRÜSSE = "Grüße, 世界 – ✓"

  def initialize(size:, check:)
    super(size: size)
    @data = "\0".b * size
    @check = check
    @kept = []
  end

  def read(offset, length)
    examine if File.exist?(@check)
    @data.byteslice(offset, length)
  end

  def write(offset, data)
    raise "a payload of #{data.encoding}" unless data.encoding == Encoding::BINARY

    @kept << [data, Zlib.crc32(data)]
    @data[offset, data.bytesize] = data
    data.bytesize
  end

  private

  def examine
    wrong = @kept.count { |data, crc| Zlib.crc32(data) != crc }
    mixed = "#{GRÜSSE} #{@kept.size} kept, #{wrong} wrong"
    File.write("#{@check}.result", mixed)
    File.unlink(@check)
  end
end
