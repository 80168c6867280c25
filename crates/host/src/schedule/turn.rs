//! The part of a connection in the schedule.

/// The place of a connection among those of its user, and the work it has had.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    waits: bool,
    /// The work it has had, counted from where others were when it came.
    had: u64,
    /// Its part of that since its user exceeds the allowance, in nanoseconds.
    excess: u64,
    /// The excess that was.
    epoch: u64,
}

impl Turn {
    /// Returns the work it had during this excess of its user.
    pub(crate) fn excess(&self, epoch: u64) -> u64 {
        if self.epoch == epoch { self.excess } else { 0 }
    }

    /// Takes note that it has something to do. Returns false if that was known.
    pub(super) fn wait(&mut self) -> bool {
        !std::mem::replace(&mut self.waits, true)
    }

    /// Puts it where this says, given the work it has had.
    pub(super) fn line_up(&mut self, put: impl FnOnce(u64) -> u64) {
        self.had = put(self.had);
    }

    /// Counts the work of serving it; `more` says that it has more to do.
    pub(super) fn served(&mut self, work: u64, more: bool, epoch: u64) {
        self.waits = more;
        self.had = self.had.saturating_add(work);
        if self.epoch != epoch {
            (self.epoch, self.excess) = (epoch, 0);
        }
        self.excess += work;
    }
}
