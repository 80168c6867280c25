//! A producer's record of confirmations, which decides how long others wait for it.

use crate::clocks::NS_PER_MS;
use crate::ids::FlushId;
use crate::limits::FIRST_WAIT_MS;

/// A command that a producer has to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Flush,
    Stop,
}

/// The time for which a session waits for a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The session's timeout.
    Full,
    /// The session's timeout if its config has one, else a short time: the producer has not proved
    /// yet that it confirms this command.
    Short,
    /// No time: the producer has missed a confirmation.
    None,
}

/// A producer's record of confirmations.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    flushes: bool,
    stops: bool,
    /// Set if it has missed one, so that others never wait long for it again.
    has_missed: bool,
    /// The number of flushes to confirm in time before others wait for it again.
    debt: u32,
    /// The debt after the last miss, which doubles with each.
    penalty: u32,
    /// The last flush that it was asked to make, and the `CLOCK_BOOTTIME` of the command.
    flush: Option<(FlushId, u64)>,
}

impl Acks {
    /// Returns the record of a new producer. `is_suspect` is set if another producer of its user
    /// has missed a confirmation recently.
    pub(crate) fn new(is_suspect: bool) -> Self {
        Self {
            has_missed: is_suspect,
            ..Self::default()
        }
    }

    /// Returns the record of a new producer that is known to confirm.
    pub(crate) fn trusted() -> Self {
        Self {
            flushes: true,
            stops: true,
            ..Self::default()
        }
    }

    pub(crate) fn patience(&self, awaited: Awaited) -> Patience {
        let is_proven = match awaited {
            Awaited::Flush => self.flushes,
            Awaited::Stop => self.stops,
        };
        if self.debt > 0 {
            Patience::None
        } else if is_proven && !self.has_missed {
            Patience::Full
        } else {
            Patience::Short
        }
    }

    pub(crate) fn ask_to_flush(&mut self, flush: FlushId, now: u64) {
        self.flush = Some((flush, now));
    }

    /// Notes that the producer confirmed flushes up to this one. `is_awaited` is set if a session
    /// was waiting for that.
    pub(crate) fn flushed(&mut self, up_to: FlushId, now: u64, is_awaited: bool) {
        let Some((_, asked)) = self.flush.take_if(|(flush, _)| *flush <= up_to) else {
            return;
        };
        if is_awaited || now.saturating_sub(asked) <= FIRST_WAIT_MS * NS_PER_MS {
            self.flushes = true;
            self.debt = self.debt.saturating_sub(1);
        }
    }

    /// Notes that the producer confirmed a stop in time.
    pub(crate) fn stopped(&mut self) {
        self.stops = true;
    }

    /// Notes that the producer missed a confirmation. One that nobody waits for misses no more.
    pub(crate) fn miss(&mut self) {
        if self.debt > 0 {
            return;
        }
        self.has_missed = true;
        self.penalty = self.penalty.saturating_mul(2).max(1);
        self.debt = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_wait_for_a_producer_by_its_record() {
        let mut acks = Acks::new(false);
        assert_eq!(acks.patience(Awaited::Flush), Patience::Short);
        acks.ask_to_flush(1, 0);
        acks.flushed(1, 5, true);
        assert_eq!(acks.patience(Awaited::Flush), Patience::Full);
        assert_eq!(acks.patience(Awaited::Stop), Patience::Short);
        let confirm = |acks: &mut Acks, flush, after_ms| {
            acks.ask_to_flush(flush, 0);
            acks.flushed(flush, after_ms * NS_PER_MS, false);
        };
        let mut flush = 1;
        for needed in [1, 2, 4] {
            acks.miss();
            // A late confirmation, and one of no flush, prove nothing.
            flush += 1;
            confirm(&mut acks, flush, FIRST_WAIT_MS + 1);
            acks.flushed(flush, 0, false);
            for _ in 0..needed {
                assert_eq!(acks.patience(Awaited::Flush), Patience::None);
                flush += 1;
                confirm(&mut acks, flush, 1);
            }
            assert_eq!(acks.patience(Awaited::Flush), Patience::Short);
        }
    }
}
