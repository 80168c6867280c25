//! Limits the number of producers of each user.

use std::collections::HashMap;

use rustix::process::{Resource, getrlimit};

/// The approximate number of descriptors of the relay itself.
const OWN: u64 = 64;
/// The descriptors of a producer: its connection and the one to the host.
const PER_PRODUCER: u64 = 2;
/// The number of producers that every user may have.
const FEW: usize = 16;

/// The number of producers of each user. Each user's limit leaves an equal share for all present
/// users and one more.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    users: HashMap<u32, usize>,
}

impl Shares {
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        let most = limit.saturating_sub(OWN) / PER_PRODUCER;
        Self::of(usize::try_from(most).unwrap_or(usize::MAX))
    }

    fn of(most: usize) -> Self {
        Self {
            most,
            users: HashMap::new(),
        }
    }

    /// Counts a producer of a user. Returns false if the user has too many.
    pub(crate) fn take(&mut self, user: u32) -> bool {
        let others = self.users.len() + usize::from(!self.users.contains_key(&user));
        let share = (self.most / (others + 1)).max(FEW);
        let count = self.users.entry(user).or_default();
        let fits = *count < share;
        *count += usize::from(fits);
        fits
    }

    pub(crate) fn give_back(&mut self, user: u32) {
        if let Some(count) = self.users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_left_for_one_more_user() {
        let mut shares = Shares::of(120);
        let fill = |shares: &mut Shares, user| (0..).take_while(|_| shares.take(user)).count();
        assert_eq!(fill(&mut shares, 1), 60);
        assert_eq!(fill(&mut shares, 2), 40);
        assert_eq!(fill(&mut shares, 3), 30);
        shares.give_back(3);
        assert!(shares.take(3));
        assert!(!shares.take(3));
        // Disconnected producers do not count.
        for _ in 0..40 {
            shares.give_back(2);
        }
        assert!(shares.take(3));
    }
}
