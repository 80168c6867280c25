//! The order in which clients are served: users take turns by the work that they cause, and so do
//! the connections of each user.
//!
//! Work is measured in nanoseconds, without the time in which other programs had the CPU
//! ([`Meter`]). The user with the least work is served next. A user who was idle starts at the
//! position of the others, so that idle time is not saved up. So the clients of one user, however
//! many, delay those of another by at most the current piece of work.
//!
//! A user may also have an allowance ([`CpuAllowance`]), and is not served for a while after
//! exceeding it.

mod account;
mod line;
mod meter;
mod turn;
mod user;

use std::collections::BTreeMap;

use ferretto_service::ClientId;

use crate::options::CpuAllowance;
use crate::origin::Origin;
use account::{Overdraft, Stage};
use line::Line;
use user::User;

pub(crate) use meter::Meter;
pub(crate) use turn::Turn;

/// A new stage of a user's excess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// The user is throttled from now on.
    Begins {
        /// The user.
        origin: Origin,
    },
    /// The user was throttled for so long that the connection with the most work has to be closed.
    Lasts {
        /// The user.
        origin: Origin,
        /// The number of the excess, see [`Turn::excess`].
        epoch: u64,
    },
}

/// All connections with bytes to read.
#[derive(Debug)]
pub(crate) struct Schedule {
    allowance: Option<CpuAllowance>,
    users: BTreeMap<Origin, User>,
    line: Line<Origin>,
    /// The number of users who are throttled.
    held: usize,
    waiting: usize,
    undeducted: u64,
}

impl Schedule {
    pub(crate) fn new(allowance: Option<CpuAllowance>) -> Self {
        Self {
            allowance,
            users: BTreeMap::new(),
            line: Line::default(),
            held: 0,
            waiting: 0,
            undeducted: 0,
        }
    }

    /// Schedules a connection to be served.
    pub(crate) fn line_up(&mut self, origin: Origin, id: ClientId, turn: &mut Turn) {
        if !turn.wait() {
            return;
        }
        self.waiting += 1;
        let user = self.users.entry(origin).or_default();
        turn.line_up(|had| user.line.put(had, id));
        if !user.queued && user.held_until.is_none() {
            user.queued = true;
            user.had = self.line.put(user.had, origin);
        }
    }

    /// Returns true if a connection can be served.
    pub(crate) fn has_work(&self) -> bool {
        !self.line.is_empty()
    }

    /// Returns the number of waiting connections, including those of users who are throttled.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes the next connection, with the number of bytes to read from it. The caller then calls
    /// [`served`](Self::served). The connection may be gone.
    pub(crate) fn next(&mut self) -> Option<(Origin, ClientId, usize)> {
        while let Some(origin) = self.line.take() {
            let Some(user) = self.users.get_mut(&origin) else {
                continue;
            };
            if user.had > self.line.now() {
                // The user may have been charged for other work meanwhile.
                user.had = self.line.put(user.had, origin);
                continue;
            }
            if let Some(id) = user.line.take() {
                self.waiting -= 1;
                return Some((origin, id, user.piece()));
            }
            user.queued = false;
        }
        None
    }

    /// Charges the work of serving a connection. `turn` is that of the connection, unless it is
    /// gone; `more` is true if it has more to do.
    pub(crate) fn served(
        &mut self,
        (origin, id): (Origin, ClientId),
        turn: Option<&mut Turn>,
        work: u64,
        more: bool,
    ) {
        self.charge(origin, work);
        let Some(user) = self.users.get_mut(&origin) else {
            return;
        };
        user.adapt(work);
        if let Some(turn) = turn {
            turn.served(work, more, user.account.epoch());
            if more {
                self.waiting += 1;
                turn.line_up(|had| user.line.put(had, id));
            }
        }
        user.queued = user.has_turn();
        if user.queued {
            user.had = self.line.put(user.had, origin);
        }
    }

    /// Charges other work that was done for a user.
    pub(crate) fn charge(&mut self, origin: Origin, work: u64) {
        let user = self.users.entry(origin).or_default();
        user.had = user.had.max(self.line.now()).saturating_add(work);
        user.undeducted += work;
        self.undeducted += work;
    }

    /// Returns the work charged since the last [`deduct`](Self::deduct).
    pub(crate) fn undeducted(&self) -> u64 {
        self.undeducted
    }

    /// Deducts the users' work from their allowances. `cpu` is the CPU time since the last call:
    /// less than the charged time if other programs ran, and more if there was other work. Returns
    /// the part that belongs to no user. `now` is `CLOCK_MONOTONIC`.
    pub(crate) fn deduct(&mut self, now: u64, cpu: u64, mut report: impl FnMut(Excess)) -> u64 {
        let counted = std::mem::take(&mut self.undeducted);
        // The shared work between pieces of work counts at most as much as these.
        let shared = cpu.min(counted.saturating_mul(2));
        let Some(allowance) = &self.allowance else {
            self.users.retain(|_, user| {
                user.undeducted = 0;
                user.queued || user.had > self.line.now()
            });
            return cpu - shared;
        };
        for (origin, user) in &mut self.users {
            let part = std::mem::take(&mut user.undeducted);
            if part == 0 {
                continue;
            }
            let part = u128::from(shared) * u128::from(part) / u128::from(counted);
            let overdraft = user.account.charge(allowance, now, part as u64);
            let Some(Overdraft { pause, stage }) = overdraft else {
                continue;
            };
            let origin = *origin;
            match stage {
                Some(Stage::Begins) => report(Excess::Begins { origin }),
                Some(Stage::Lasts { epoch }) => report(Excess::Lasts { origin, epoch }),
                None => {}
            }
            self.held += usize::from(user.held_until.is_none());
            user.held_until = Some(now.saturating_add(pause));
            if std::mem::replace(&mut user.queued, false) {
                self.line.remove(&origin);
            }
        }
        self.forget(now);
        cpu - shared
    }

    /// Forgets users without a state worth keeping.
    fn forget(&mut self, now: u64) {
        let Some(allowance) = &self.allowance else {
            return;
        };
        let served = self.line.now();
        self.users.retain(|_, user| {
            if user.queued || user.held_until.is_some() || user.had > served {
                return true;
            }
            !user.line.is_empty() || !user.account.is_full(allowance, now)
        });
    }

    /// Serves users again whose pause is over.
    pub(crate) fn release(&mut self, now: u64) {
        if self.held == 0 {
            return;
        }
        for (origin, user) in &mut self.users {
            if user.held_until.is_none_or(|until| until > now) {
                continue;
            }
            user.held_until = None;
            self.held -= 1;
            if user.has_turn() {
                user.queued = true;
                user.had = self.line.put(user.had, *origin);
            }
        }
    }

    /// Returns the time at which to call [`release`](Self::release), in `CLOCK_MONOTONIC`.
    pub(crate) fn next_release(&self) -> Option<u64> {
        if self.held == 0 {
            return None;
        }
        let waiting = self.users.values().filter(|user| !user.line.is_empty());
        waiting.filter_map(|user| user.held_until).min()
    }
}

#[cfg(test)]
mod tests;
