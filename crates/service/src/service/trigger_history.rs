//! The recent activations of triggers, which configs and quotas limit.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::limits::{MAX_TRIGGER_HISTORY, TRIGGER_WINDOW_NS};
use crate::quota::User;

/// The times of the latest activations of triggers that had an effect on a session, by name.
#[derive(Debug, Default)]
pub(super) struct TriggerHistory {
    /// The activations, oldest first.
    entries: VecDeque<Activation>,
    counts: BTreeMap<u64, u32>,
    by_user: BTreeMap<User, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Activation {
    /// `CLOCK_BOOTTIME`.
    time: u64,
    /// The hash of the name.
    name: u64,
    user: User,
}

impl TriggerHistory {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of activations of a name during the last 24 hours.
    pub(super) fn count(&mut self, now: u64, name: u64) -> u32 {
        let since = now.saturating_sub(TRIGGER_WINDOW_NS);
        while self.entries.front().is_some_and(|entry| entry.time < since) {
            self.forget_oldest();
        }
        self.counts.get(&name).copied().unwrap_or(0)
    }

    /// Returns the number of recent activations by a user.
    pub(super) fn count_of(&self, user: User) -> usize {
        self.by_user.get(&user).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, time: u64, name: u64, user: User) {
        if self.entries.len() >= MAX_TRIGGER_HISTORY {
            self.forget_oldest();
        }
        self.entries.push_back(Activation { time, name, user });
        *self.by_user.entry(user).or_default() += 1;
        *self.counts.entry(name).or_default() += 1;
    }

    fn forget_oldest(&mut self) {
        let Some(Activation { name, user, .. }) = self.entries.pop_front() else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&name);
            }
        }
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

pub(super) fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded_and_forgets_after_a_day() {
        let mut history = TriggerHistory::default();
        let user = User::of(&crate::event::Peer::default());
        history.add(1, 7, user);
        history.add(2, 7, user);
        assert_eq!(history.count(1 + TRIGGER_WINDOW_NS, 7), 2);
        assert_eq!(history.count(2 + TRIGGER_WINDOW_NS, 7), 1);
        assert_eq!(history.count(3 + TRIGGER_WINDOW_NS, 7), 0);
        for name in 0..=MAX_TRIGGER_HISTORY as u64 {
            history.add(5, name, user);
        }
        assert_eq!(history.count(5, 0), 0);
        assert_eq!(history.count(5, 1), 1);
        assert_eq!(history.counts.len(), MAX_TRIGGER_HISTORY);
        assert_eq!(history.count_of(user), MAX_TRIGGER_HISTORY);
    }
}
