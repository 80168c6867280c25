//! The CPU time that a user may still use.

use crate::options::CpuAllowance;

/// The work that a user who is held back may cause when that ends.
const SLICE: u64 = 20_000_000;

/// The CPU time of a user against its allowance.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Nanoseconds; negative if it had more than it may.
    balance: i64,
    /// When it was true; 0 before anything was charged.
    at: u64,
    /// Since when the user has used all it may, with no rest to speak of.
    excess_since: Option<u64>,
    /// Counts these times.
    epoch: u64,
}

/// A user had more than it may.
#[derive(Debug)]
pub(super) struct Overdraft {
    /// The time that it has to pause, in nanoseconds.
    pub(super) pause: u64,
    /// Set if something is to be done about it besides.
    pub(super) stage: Option<Stage>,
}

/// The stage of an excess.
#[derive(Debug)]
pub(super) enum Stage {
    Begins,
    /// It has lasted longer than patience.
    Lasts {
        epoch: u64,
    },
}

impl Account {
    /// Returns the number of the present excess, or of the last one.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Deducts work; returns the consequence if that is more than the user may have.
    pub(super) fn charge(
        &mut self,
        allowance: &CpuAllowance,
        now: u64,
        work: u64,
    ) -> Option<Overdraft> {
        if self.at == 0 {
            *self = Self {
                balance: allowance.burst as i64,
                at: now,
                excess_since: None,
                epoch: 0,
            };
        }
        self.refill(allowance, now);
        self.balance = self.balance.saturating_sub_unsigned(work);
        if self.balance >= 0 {
            return None;
        }
        let stage = match self.excess_since {
            None => Some(Stage::Begins),
            Some(since) if now.saturating_sub(since) >= allowance.patience => {
                let epoch = self.epoch;
                Some(Stage::Lasts { epoch })
            }
            Some(_) => None,
        };
        if stage.is_some() {
            self.excess_since = Some(now);
            self.epoch += 1;
        }
        let missing = self.balance.unsigned_abs() + SLICE.min(allowance.burst / 4);
        let pause = missing.saturating_mul(100) / allowance.percent.max(1);
        Some(Overdraft { pause, stage })
    }

    /// Returns true if the user may have all that it may have at most.
    pub(super) fn is_full(&mut self, allowance: &CpuAllowance, now: u64) -> bool {
        self.refill(allowance, now);
        self.balance >= allowance.burst as i64
    }

    /// Credits the time that has passed.
    fn refill(&mut self, allowance: &CpuAllowance, now: u64) {
        let passed = now.saturating_sub(self.at);
        let earned = passed / 100 * allowance.percent;
        let full = allowance.burst as i64;
        self.balance = self.balance.saturating_add_unsigned(earned).min(full);
        self.at = now;
        if self.balance >= full / 2 {
            self.excess_since = None;
        }
    }
}
