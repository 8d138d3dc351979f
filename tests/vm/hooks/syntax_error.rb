class SyntaxErrorDisk < UBLK::Target
  def read(offset, length
    "\0" * length
  end
end
