# frozen_string_literal: true

module UBLK
  # What the kernel says of a ublk device, this library's or not. Immutable; a snapshot.
  #
  # state: 0 dead (added, or stopped), 1 live, 2 quiesced and 3 failing I/O (both wait for `Device.recover`).
  # pid: of the server; -1 or stale when that is gone. tag: whoever made the device put it there.
  DeviceInfo = Struct.new(:id, :queues, :depth, :state, :max_io_bytes, :pid, :flags, :owner_uid, :owner_gid, :tag,
                          keyword_init: true) do
    # In the order of the members.
    def self.from_native(values) = new(**members.zip(values).to_h)

    def initialize(id:, queues:, depth:, state:, max_io_bytes:, pid:, flags:, owner_uid:, owner_gid:, tag: 0)
      super
      freeze
    end

    # The same with other values.
    def with(**changes) = self.class.new(**to_h, **changes)

    # The disk, and the node that its server holds.
    def path = "/dev/ublkb#{id}"
    def char_path = "/dev/ublkc#{id}"

    def state_name = %i[dead live quiesced fail_io].fetch(state, :unknown)
    def live? = state == 1

    # Waits for a new server.
    def recoverable? = state == 2 || state == 3

    # Whether this library made it, in whatever process.
    def ours? = tag >> 32 == self.class::TAG_MAGIC

    # Whether it was made to outlive its server.
    def recovery? = flags.anybits?(self.class::USER_RECOVERY)
  end

  # "rubL"; the service's devices have another.
  DeviceInfo::TAG_MAGIC = 0x7275624c
  DeviceInfo::USER_RECOVERY = 1 << 3
end
