//! The validity of a writer's incremental state.

/// The number of bytes after which a sequence restarts by itself, so that its rest in a ring buffer
/// is readable after the start was overwritten. A restart takes a few hundred bytes.
const RENEWAL: u64 = 64 << 10;

/// The validity of a writer's incremental state, which later packets rely on.
///
/// The state is void at the start, when a recording clears it, after a packet was lost, and every
/// 64 KiB. The writer then [restarts](Self::restart): it forgets its interned data and descriptors,
/// and writes its first packet again, with
/// [`INCREMENTAL_STATE_CLEARED`](crate::sequence_flags::INCREMENTAL_STATE_CLEARED).
#[derive(Clone, Copy, Debug)]
pub(crate) struct IncrementalState {
    is_stale: bool,
    /// The writer's number of lost packets at the last restart.
    drop_count: u64,
    /// The writer's number of bytes at which the state is renewed.
    renew_at: u64,
}

impl IncrementalState {
    /// Creates the state of a writer that has written nothing, given its number of lost packets.
    pub(crate) const fn new(drop_count: u64) -> Self {
        Self {
            is_stale: true,
            drop_count,
            renew_at: 0,
        }
    }

    /// Makes the state void.
    pub(crate) fn clear(&mut self) {
        self.is_stale = true;
    }

    /// Returns true if the state was cleared, or packets have been lost since the restart.
    #[inline]
    pub(crate) fn is_void(&self, drop_count: u64) -> bool {
        self.is_stale || self.drop_count != drop_count
    }

    /// Returns true if the writer must restart before its next packet, given its numbers of lost
    /// packets and of bytes.
    #[inline]
    pub(crate) fn must_restart(&self, drop_count: u64, written: u64) -> bool {
        self.is_void(drop_count) || written >= self.renew_at
    }

    /// Starts a restart. Must be called before its first packet is written.
    pub(crate) fn restart(&mut self, drop_count: u64, written: u64) {
        self.drop_count = drop_count;
        self.renew_at = written + RENEWAL;
    }

    /// Ends a restart after its first packet; `is_dropping` is true if the writer drops packets
    /// now. Returns false if the packet was dropped: the state stays void, and the next event tries
    /// again. Further packets might find space, but would be useless.
    pub(crate) fn restarted(&mut self, is_dropping: bool) -> bool {
        self.is_stale = is_dropping;
        !is_dropping
    }

    /// Returns the number of bytes at which the state is renewed.
    #[inline]
    pub(crate) fn renew_at(&self) -> u64 {
        self.renew_at
    }
}

#[cfg(test)]
mod tests {
    use super::{IncrementalState, RENEWAL};

    #[test]
    fn state_is_void_at_the_start_and_after_a_clear_a_loss_and_64_kib() {
        let mut state = IncrementalState::new(3);
        assert!(state.must_restart(3, 0));
        state.restart(3, 100);
        assert!(state.restarted(false));
        assert!(!state.must_restart(3, 100));
        assert!(state.must_restart(4, 100), "a packet was lost");
        assert!(state.must_restart(3, 100 + RENEWAL), "a while");
        assert!(!state.is_void(3));
        state.clear();
        assert!(state.is_void(3));
    }

    #[test]
    fn a_dropped_restart_is_repeated() {
        let mut state = IncrementalState::new(0);
        state.restart(0, 0);
        assert!(!state.restarted(true));
        assert!(state.must_restart(0, 0));
    }
}
