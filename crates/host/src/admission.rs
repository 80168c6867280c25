//! The cost that the clients of one user may cause together.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use crate::closer::Account;
use crate::options::Limits;
use crate::origin::Origin;

/// Connections that anyone may have, however few descriptors there are.
const FEW_CONNECTIONS: usize = 16;
/// Descriptors that a connection takes: its own, and that of its memory or file.
pub(crate) const PER_CONNECTION: usize = 2;
/// Descriptors of the service itself, about.
const OWN: usize = 64;
/// Descriptors kept free for arriving messages, which bring 253 at most.
const RESERVE: usize = 256;
/// The limit of all users together, as a multiple of that of one user.
const HELD_BY_ALL: usize = 2;

/// The connections of each origin, and the memory held for them.
///
/// Users share descriptors and memory first, and the connections of each user share its part
/// then. One who comes when others have it all gets a share of it: those who have the most
/// lose connections.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Connections that each user may have regardless of other users, if the operator has set it.
    most_connections: Option<usize>,
    most_held: usize,
    /// The number of descriptors for all clients.
    descriptors: usize,
    origins: HashMap<Origin, Usage>,
}

#[derive(Debug)]
struct Usage {
    connections: usize,
    /// Bytes that are not sent yet and of unfinished frames.
    held: usize,
    /// The descriptors that are to be closed, or were passed.
    account: Arc<Account>,
    /// Set if the operator knows that connections are refused.
    is_reported: bool,
}

impl Usage {
    fn descriptors(&self) -> usize {
        self.connections * PER_CONNECTION + self.account.descriptors()
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            most_connections: limits.connections_per_user,
            most_held: limits.held_per_user,
            descriptors: limit
                .saturating_sub(OWN)
                .max(FEW_CONNECTIONS * PER_CONNECTION),
            origins: HashMap::new(),
        }
    }

    /// The account of an origin, which `new` opens if there is none.
    pub(crate) fn account(
        &mut self,
        origin: Origin,
        new: impl FnOnce() -> Arc<Account>,
    ) -> Arc<Account> {
        let usage = self.origins.entry(origin).or_insert_with(|| Usage {
            connections: 0,
            held: 0,
            account: new(),
            is_reported: false,
        });
        Arc::clone(&usage.account)
    }

    /// Counts a new connection of an origin that has an account, unless there are too many.
    pub(crate) fn admit(&mut self, origin: Origin) -> Result<(), Refused> {
        self.origins
            .retain(|known, usage| *known == origin || usage.descriptors() > 0);
        let share = self.share();
        let Some(usage) = self.origins.get_mut(&origin) else {
            return Ok(());
        };
        let fits = match self.most_connections {
            Some(most) => usage.connections < most,
            None => usage.descriptors() + PER_CONNECTION <= share,
        };
        if fits {
            usage.connections += 1;
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut usage.is_reported, true);
        Err(Refused {
            connections: usage.connections,
            is_first,
        })
    }

    pub(crate) fn release(&mut self, origin: Origin) {
        let most = self.share() / PER_CONNECTION;
        let most = self.most_connections.unwrap_or(most);
        let Some(usage) = self.origins.get_mut(&origin) else {
            return;
        };
        usage.connections = usage.connections.saturating_sub(1);
        // Not at each connection that comes in place of one that left.
        if usage.connections < most / 2 {
            usage.is_reported = false;
        }
    }

    /// Returns the number of connections that the clients of one origin may have.
    pub(crate) fn most_connections_of_one(&self) -> usize {
        self.most_connections
            .unwrap_or_else(|| self.share() / PER_CONNECTION)
    }

    /// Returns the number of descriptors that the clients of one origin may take: as many as each
    /// of those there are and one more could, with some left over.
    fn share(&self) -> usize {
        let usable = self.descriptors - self.reserve();
        (usable / (self.origins.len() + 1)).max(FEW_CONNECTIONS * PER_CONNECTION)
    }

    /// Returns the number of descriptors that nobody is to take: more than one message can bring,
    /// if there are so many.
    fn reserve(&self) -> usize {
        RESERVE.min(self.descriptors / 4)
    }

    fn free(&self) -> usize {
        let used: usize = self.origins.values().map(Usage::descriptors).sum();
        self.descriptors.saturating_sub(used)
    }

    /// Returns true if so few descriptors are left that a message might bring more.
    pub(crate) fn is_scarce(&self) -> bool {
        self.most_connections.is_none() && self.free() < self.reserve()
    }

    /// Returns true if the clients of this origin take more descriptors than their share.
    pub(crate) fn is_greedy(&self, origin: Origin) -> bool {
        let usage = self.origins.get(&origin);
        self.most_connections.is_none()
            && usage.is_some_and(|usage| usage.descriptors() > self.share())
    }

    /// Returns the origin that has to lose connections for others to have some.
    pub(crate) fn greediest(&self) -> Option<Origin> {
        if !self.is_scarce() {
            return None;
        }
        let share = self.share();
        let greedy = self.origins.iter().filter(|(_, usage)| {
            // Connections that are being closed already do not count.
            usage.connections * PER_CONNECTION > share
        });
        let (origin, _) = greedy.max_by_key(|(_, usage)| usage.connections)?;
        Some(*origin)
    }

    /// Notes a change of the memory held for a client. If that is too much for its origin, or for
    /// all together, returns the origin that has to give some back, and its new limit.
    pub(crate) fn changed(
        &mut self,
        origin: Origin,
        before: usize,
        after: usize,
    ) -> Option<(Origin, usize)> {
        let usage = self.origins.get_mut(&origin)?;
        usage.held = usage.held.saturating_sub(before).saturating_add(after);
        if usage.held > self.most_held {
            return Some((origin, self.most_held));
        }
        let all: usize = self.origins.values().map(|usage| usage.held).sum();
        let most = self.most_held.saturating_mul(HELD_BY_ALL);
        if all <= most {
            return None;
        }
        let (worst, _) = self.origins.iter().max_by_key(|(_, usage)| usage.held)?;
        Some((*worst, most / self.origins.len()))
    }
}

/// A refused connection: there are too many of its origin.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) connections: usize,
    pub(crate) is_first: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Closer;

    /// Users and their shares of a hundred connections, beside those that are kept free.
    struct Shared {
        admission: Admission,
        closer: Closer,
    }

    impl Shared {
        fn new() -> Self {
            let mut admission = Admission::new(&Limits::default());
            admission.descriptors = 100 * PER_CONNECTION + RESERVE;
            // Not less than is kept free then.
            assert_eq!(admission.reserve(), admission.descriptors / 4);
            let closer = Closer::new();
            Self { admission, closer }
        }

        fn account(&mut self, uid: u32) -> Arc<Account> {
            let (origin, closer) = (Origin::User(uid), &self.closer);
            self.admission.account(origin, || closer.account(origin))
        }

        /// Connects until that is refused; returns how often it was not.
        fn fill(&mut self, uid: u32) -> usize {
            self.account(uid);
            let mut count = 0;
            while self.admission.admit(Origin::User(uid)).is_ok() {
                count += 1;
                while let Some(greedy) = self.admission.greediest() {
                    assert_ne!(greedy, Origin::User(uid));
                    self.admission.release(greedy);
                }
            }
            count
        }
    }

    #[test]
    fn whoever_comes_late_finds_as_much_as_the_others() {
        let mut shared = Shared::new();
        let first = shared.fill(1);
        let second = shared.fill(2);
        let third = shared.fill(3);
        // A half, a third, a fourth of those not kept free.
        let usable = shared.admission.descriptors - shared.admission.reserve();
        let of = |part: usize| usable / part / PER_CONNECTION;
        assert_eq!((first, second, third), (of(2), of(3), of(4)));
        assert!(!shared.admission.is_scarce());
        // Once many have come, those who had more have as much as they.
        for uid in 4..=6 {
            assert_eq!(shared.fill(uid), FEW_CONNECTIONS.max(of(uid as usize + 1)));
        }
    }

    #[test]
    fn what_is_to_be_closed_counts() {
        let mut shared = Shared::new();
        let account = shared.account(1);
        let disposer = crate::closer::Disposer(account);
        let most = shared.fill(1);
        assert!(!shared.admission.is_greedy(Origin::User(1)));
        // It passes some, which are held.
        let passed: Vec<_> = (0..2 * PER_CONNECTION)
            .map(|_| ferretto_ipc::Disposal::arrived(&disposer))
            .collect();
        assert!(shared.admission.is_greedy(Origin::User(1)));
        for _ in &passed {
            shared.admission.release(Origin::User(1));
        }
        assert!(shared.admission.admit(Origin::User(1)).is_ok());
        assert!(shared.admission.admit(Origin::User(1)).is_ok());
        assert!(shared.admission.admit(Origin::User(1)).is_err());
        assert!(most > FEW_CONNECTIONS);
        // They are needed after all.
        for _ in passed {
            ferretto_ipc::Disposal::taken(&disposer);
        }
        assert!(shared.admission.admit(Origin::User(1)).is_ok());
    }

    #[test]
    fn the_user_with_the_most_bytes_gives_some_back() {
        let mut shared = Shared::new();
        let most = shared.admission.most_held;
        for uid in 1..=3 {
            shared.account(uid);
            assert!(shared.admission.admit(Origin::User(uid)).is_ok());
        }
        let [first, second, third] = [1, 2, 3].map(Origin::User);
        let admission = &mut shared.admission;
        assert_eq!(admission.changed(first, 0, most - 5), None);
        assert_eq!(admission.changed(second, 0, most), None);
        assert_eq!(admission.changed(third, 0, 5), None);
        // The third is far from any bound of its own.
        let worst = admission.changed(third, 5, 6);
        assert_eq!(worst, Some((second, most * HELD_BY_ALL / 3)));
        assert_eq!(admission.changed(second, most, 0), None);
        assert_eq!(admission.changed(third, 6, most + 1), Some((third, most)));
    }
}
