# frozen_string_literal: true

require_relative "prober"

# The same with the network.
class NetworkProber < Prober
  network true
end

run NetworkProber
