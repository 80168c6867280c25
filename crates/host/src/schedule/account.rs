//! The CPU time that a user may still use.

use crate::options::CpuAllowance;

/// The work that a user may cause when a pause ends.
const SLICE: u64 = 20_000_000;

/// The CPU time of a user compared to its allowance.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The remaining nanoseconds; negative if the user has exceeded its allowance.
    balance: i64,
    /// The time of the balance; 0 before the first charge.
    at: u64,
    /// The time since which the user has been at its limit without a significant pause.
    excess_since: Option<u64>,
    /// The number of such periods.
    epoch: u64,
}

/// The consequence of an exceeded allowance.
#[derive(Debug)]
pub(super) struct Overdraft {
    /// The time for which the user has to pause, in nanoseconds.
    pub(super) pause: u64,
    /// Set if the excess has reached a new stage.
    pub(super) stage: Option<Stage>,
}

/// The stage of an excess.
#[derive(Debug)]
pub(super) enum Stage {
    Begins,
    /// The excess has lasted longer than the patience.
    Lasts {
        epoch: u64,
    },
}

impl Account {
    /// Returns the number of the current excess, or of the last one.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Deducts work. Returns the consequence if the user has exceeded its allowance.
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

    /// Returns true if the user has its full allowance.
    pub(super) fn is_full(&mut self, allowance: &CpuAllowance, now: u64) -> bool {
        self.refill(allowance, now);
        self.balance >= allowance.burst as i64
    }

    /// Adds the allowance for the time that has passed.
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
