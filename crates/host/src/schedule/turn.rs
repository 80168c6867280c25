//! The schedule's data of a connection.

/// The turn of a connection among those of its user, and the work it has had.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    waits: bool,
    /// The work, counted from that of the others when the connection came.
    had: u64,
    /// The part of it since its user exceeded the allowance, in nanoseconds.
    excess: u64,
    /// The number of that excess.
    epoch: u64,
}

impl Turn {
    /// Returns the work that the connection had during this excess of its user.
    pub(crate) fn excess(&self, epoch: u64) -> u64 {
        if self.epoch == epoch { self.excess } else { 0 }
    }

    /// Marks the connection as waiting. Returns false if it already was.
    pub(super) fn wait(&mut self) -> bool {
        !std::mem::replace(&mut self.waits, true)
    }

    /// Puts the connection at the position that `put` returns for the work it has had.
    pub(super) fn line_up(&mut self, put: impl FnOnce(u64) -> u64) {
        self.had = put(self.had);
    }

    /// Charges the work of serving it; `more` is true if it has more to do.
    pub(super) fn served(&mut self, work: u64, more: bool, epoch: u64) {
        self.waits = more;
        self.had = self.had.saturating_add(work);
        if self.epoch != epoch {
            (self.epoch, self.excess) = (epoch, 0);
        }
        self.excess += work;
    }
}
