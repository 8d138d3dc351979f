# /etc/ublk-ruby/hooks/zebra.rb          a disk of zeroes and ones, in stripes of a sector
class Zebra < UBLK::Target
  STRIPES = ["\x00".b * 512, "\xff".b * 512].freeze

  option :size, :bytes, required: true, doc: "of the disk"
  recovery :reissue                      # nothing to lose: a request may be answered twice

  def initialize(size:) = super(size: size)
  def read(offset, length) = (offset / 512...(offset + length) / 512).map { |n| STRIPES[n % 2] }.join
  def read_only? = true
end
