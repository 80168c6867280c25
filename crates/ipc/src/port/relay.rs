//! `RelayPort`: how a relay describes its machine and clocks.

define_port! {
    "RelayPort" {
        /// Describes the machine.
        InitRelay(InitRelayRequest) -> InitRelayResponse;
        /// One half of a clock exchange.
        SyncClock(SyncClockRequest) -> SyncClockResponse;
    }
}
