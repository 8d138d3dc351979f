# frozen_string_literal: true

require_relative "test_helper"

# The extension, as far as it goes without a kernel.
class TestNative < Minitest::Test
  def setup
    skip "no extension: #{UBLK.native_load_error.message}" if UBLK.native_load_error
  end

  def test_layout
    assert_equal({ ctrl_cmd: 32, dev_info: 64, params: 64, io_desc: 24, start_sector: 8 }, UBLK::Native.layout)
  end

  def test_constants
    values = { F_USER_RECOVERY: 8, F_CMD_IOCTL_ENCODE: 64, F_USER_COPY: 128, MAX_QUEUE_DEPTH: 4096,
               IO_BUF_OFFSET: 1 << 31, IO_OP_READ: 0, IO_OP_WRITE: 1, IO_OP_FLUSH: 2, IO_OP_DISCARD: 3, IO_OP_WRITE_ZEROES: 5 }
    values.each { |name, value| assert_equal value, UBLK::Native.const_get(name), name }
    flags = UBLK::Control::RECOVERY_FLAGS
    assert_equal UBLK::Native::F_USER_RECOVERY | UBLK::Native::F_USER_RECOVERY_REISSUE, flags[:reissue]
    assert_equal UBLK::Native::F_USER_RECOVERY | UBLK::Native::F_USER_RECOVERY_FAIL_IO, flags[:fail_io]
    assert_equal UBLK::Native::F_USER_RECOVERY, UBLK::DeviceInfo::USER_RECOVERY
  end

  def test_reason
    assert_equal UBLK::Native.supported?, UBLK::Native.unsupported_reason.nil?
  end

  def test_closed_handles
    control = UBLK::Native::Control.allocate
    assert_predicate control, :closed?
    assert_nil control.close
    %i[features rounds_last? cancel].each { |name| assert_raises(IOError, name) { control.public_send(name) } }
    server = UBLK::Native::Server.allocate
    assert_raises(IOError) { server.run(0, RamDisk.new, []) }
    assert_nil server.release
    assert_nil server.close
    assert_empty server.tasks
  end

  def test_handles_are_not_copied
    assert_raises(NoMethodError) { UBLK::Native::Control.allocate.dup }
    assert_raises(NoMethodError) { UBLK::Native::Server.allocate.dup }
  end

  def in_child
    reader, writer = IO.pipe
    pid = fork do
      writer.write(yield.inspect)
    ensure
      exit!(0)
    end
    writer.close
    Process.wait(pid)
    reader.read
  end

  def message_of
    yield
  rescue StandardError => e
    [e.class, e.message]
  end

  def test_handles_refuse_use_after_fork
    control = UBLK::Native::Control.allocate
    server = UBLK::Native::Server.allocate
    answers = in_child do
      [message_of { control.features }, message_of { control.close }, message_of { server.run(0, nil, nil) },
       message_of { server.close }]
    end
    assert_equal 4, answers.scan("[RuntimeError, ").size, answers
    assert_includes answers, "belongs to process #{Process.pid}, which forked"
  end

  def test_arguments
    server = UBLK::Native::Server
    [[0, 0, 1], [0, 4097, 1], [0, 1, 0], [0, 1, 4097]].each { |list| assert_raises(ArgumentError) { server.new(*list, 4096) } }
    assert_raises(TypeError) { server.new("a", 1, 1, 4096) }
    assert_raises(RangeError) { server.new(-1 << 40, 1, 1, 4096) }
  end

  # What a serving loop asks.
  def test_facts
    facts = UBLK::Native.facts(RamDisk.new)
    assert_equal({ reads_into: false, writes_from: false, read_only: false, can_discard: false, can_write_zeroes: false,
                   takes_unmap: false }, facts)
    disk = RamDisk.new
    def disk.read_into(buffer, offset) = buffer.set(read(offset, buffer.size))
    assert_equal [true, false], UBLK::Native.facts(disk).values_at(:reads_into, :writes_from)
    disk = RamDisk.new
    def disk.write_zeroes(_offset, _length, unmap:) = unmap
    assert_equal [true, true], UBLK::Native.facts(disk).values_at(:can_write_zeroes, :takes_unmap)
  end

  def raised
    yield
  rescue SystemCallError, StandardError => e
    e
  end

  def test_errnos
    { Errno::ENOSPC.new => Errno::ENOSPC, SystemCallError.new("x") => Errno::EIO,
      SystemCallError.new("x", 99_999) => Errno::EIO, SystemCallError.new("x", 0) => Errno::EIO, RuntimeError.new => Errno::EIO }.each do |error, errno|
      assert_equal errno::Errno, UBLK::Native.describe(error, nil)[1], error.inspect
    end
  end

  def test_origin
    error = raised { raise "boom" }
    parts = UBLK::Native.describe(error, :read)
    assert_equal ["hook", "RuntimeError", "boom", __FILE__], parts.values_at(0, 2, 3, 4)
    assert_kind_of Integer, parts[5]
    assert_equal [nil, nil], UBLK::Native.describe(RuntimeError.new, nil)[4, 2]
  end

  # How many of the block's calls let another thread run.
  def turns(calls)
    count = 0
    other = Thread.new { loop { count += 1 } }
    Thread.pass while count.zero?
    calls.times.count do
      before = count
      yield
      count != before
    end
  ensure
    other.kill
  end

  # Others run while a call may wait, and only then: but for the 100 ms after which a thread has had its time anyway.
  def test_turns
    File.open("/dev/shm/turns-#{$$}", "w+b") do |file|
      File.unlink(file.path)
      assert_equal "tmpfs", `stat --file-system --format=%T /dev/shm`.strip
      data = "x".b * (16 << 20)
      assert_operator turns(100) { UBLK::Sys.pwrite(file, data.byteslice(0, 4096), 0) }, :<=, 10
      assert_operator turns(100) { UBLK::Sys.pread(file, 4096, 0) }, :<=, 10
      assert_operator turns(5) { UBLK::Sys.pwrite(file, data, 0) }, :>=, 3
      assert_operator turns(5) { UBLK::Sys.pread(file, data.bytesize, 0) }, :>=, 3
      UBLK::Buffer.for_read(4096) { |buffer| assert_operator turns(100) { buffer.pread(file, 0) }, :<=, 10 }
    end
  end

  # In a plain interpreter the system calls are the extension's.
  def test_sys
    require "tempfile"
    Tempfile.create do |file|
      file.write("x" * 8192)
      file.flush
      assert_equal 0, UBLK::Sys.punch_hole(file, 0, 4096)
      assert_equal "\0", file.pread(1, 0)
    rescue Errno::EOPNOTSUPP
      skip "this file system has no holes"
    end
  end
end
