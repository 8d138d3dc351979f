# frozen_string_literal: true

# These need no kernel, and find the library by the load path: of the build tree, or of an installed gem.
require "minitest/autorun"
require "tmpdir"
require "ublk"

# A disk in a String.
class RamDisk < UBLK::Target
  def initialize(size: 1 << 20, **rest)
    super
    @data = "\0".b * size
  end

  def read(offset, length) = @data.byteslice(offset, length)

  def write(offset, data)
    @data[offset, data.bytesize] = data
    data.bytesize
  end
end

# Stands for the kernel: notes what is asked of it.
class FakeControl
  attr_reader :calls, :infos
  attr_accessor :error_of

  def initialize(calls: [])
    @calls = calls
    @error_of = {}
    @infos = {}
  end

  def start_dev(id) = call(:start, id)
  def end_user_recovery(id) = call(:end_recovery, id)
  def cancel = call(:cancel)
  def close = call(:close)

  def stop_dev(id)
    call(:stop, id)
    FakeServer.current&.stopped
  end

  def del_dev(id)
    call(:delete, id)
    @infos.delete(id)
  end

  def get_dev_info(id) = @infos.fetch(id) { raise Errno::ENODEV }

  private

  def call(name, *)
    @calls << name
    error = @error_of[name] and raise error
  end
end

# Stands for the extension's side of a device: queues that serve until they are told to end.
class FakeServer
  class << self
    # The latest, and what the next ones do.
    attr_accessor :current, :calls, :failure

    def reset(calls)
      @calls = calls
      @failure = nil
      @current = nil
    end
  end

  attr_reader :released

  def initialize(_id, queues, _depth, _max_io_bytes)
    @queues = queues
    @ends = Queue.new
    FakeServer.current = self
    FakeServer.calls << :open
  end

  def run(queue, _target, ready)
    FakeServer.calls << :run
    raise FakeServer.failure if FakeServer.failure && FakeServer.failure != :later

    ready.push(queue)
    ending = @ends.pop
    raise ending if ending.is_a?(Exception)

    ending
  end

  def stopped = @queues.times { @ends << :stopped }
  def fail(error) = @ends << error
  def close = @queues.times { @ends << :woken }
  def tasks = []
  def statistics = { requests: 3 }
  def last_error = nil

  def release
    FakeServer.calls << :release
    @released = true
  end
end

# A device that is made of these.
module FakeDevices
  def setup
    @calls = []
    FakeServer.reset(@calls)
  end

  def device(target = RamDisk.new, flags: 0, recovering: false, queues: 1)
    @control = FakeControl.new(calls: @calls)
    info = UBLK::DeviceInfo.new(id: 3, queues: queues, depth: 8, state: 0, max_io_bytes: 524_288, pid: 0, flags: flags,
                                owner_uid: 0, owner_gid: 0, tag: UBLK::Control.new_tag)
    @control.infos[3] = info
    params = UBLK::Params.from_target(target)
    UBLK::Device.new(target, info: info, params: params, control: @control, mlock: false, recovering: recovering,
                                server: FakeServer)
  end
end
