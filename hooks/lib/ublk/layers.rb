# frozen_string_literal: true

module UBLK
  # The layers that come with the library, each loaded when it is first named. Options are keywords: sizes may
  # be written "10M", durations "250ms"; `ops:` is one of :read, :write, :flush, :discard, :write_zeroes, or a
  # list of them.
  module Layers
    autoload :Cache, "ublk/layers/cache"
    autoload :Cow, "ublk/layers/cow"
    autoload :Delay, "ublk/layers/delay"
    autoload :Fault, "ublk/layers/fault"
    autoload :Partition, "ublk/layers/partition"
    autoload :RateLimit, "ublk/layers/rate_limit"
    autoload :ReadOnly, "ublk/layers/read_only"
    autoload :Retry, "ublk/layers/retry"
    autoload :Stats, "ublk/layers/stats"
    autoload :Trace, "ublk/layers/trace"
    autoload :Verify, "ublk/layers/verify"
  end
end
