//! Limits on the connections and the memory of each user's clients.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use crate::closer::Account;
use crate::options::Limits;
use crate::origin::Origin;

/// The number of connections that any user may have, however few descriptors there are.
const FEW_CONNECTIONS: usize = 16;
/// The number of descriptors of a connection: its own, and that of its memory or file.
pub(crate) const PER_CONNECTION: usize = 2;
/// The approximate number of the service's own descriptors.
const OWN: usize = 64;
/// The number of descriptors kept free for arriving messages, which carry at most 253.
const RESERVE: usize = 256;
/// The limit of all users together, as a multiple of one user's limit.
const HELD_BY_ALL: usize = 2;

/// The connections of each origin, and the memory held for them.
///
/// Descriptors and memory are shared between users first, and then between the connections of each
/// user. A user who arrives when others have everything gets a share: those with the most lose
/// connections.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The number of connections that each user may have, if the operator has set it.
    most_connections: Option<usize>,
    most_held: usize,
    /// The number of descriptors for all clients.
    descriptors: usize,
    origins: HashMap<Origin, Usage>,
}

#[derive(Debug)]
struct Usage {
    connections: usize,
    /// The number of unsent bytes and of bytes in unfinished frames.
    held: usize,
    /// The account of descriptors that were passed or are to be closed.
    account: Arc<Account>,
    /// Set if the refusal of connections was reported.
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

    /// Returns the account of an origin, and opens it with `new` if there is none.
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

    /// Counts a new connection of an origin with an account, unless there are too many.
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
        // Not reset at once, or each replaced connection would be reported.
        if usage.connections < most / 2 {
            usage.is_reported = false;
        }
    }

    /// Returns the number of connections that the clients of one origin may have.
    pub(crate) fn most_connections_of_one(&self) -> usize {
        self.most_connections
            .unwrap_or_else(|| self.share() / PER_CONNECTION)
    }

    /// Returns the number of descriptors that the clients of one origin may use: an equal share
    /// among the present origins and one more, minus a reserve.
    fn share(&self) -> usize {
        let usable = self.descriptors - self.reserve();
        (usable / (self.origins.len() + 1)).max(FEW_CONNECTIONS * PER_CONNECTION)
    }

    /// Returns the number of reserved descriptors: more than one message can carry, if there are
    /// enough.
    fn reserve(&self) -> usize {
        RESERVE.min(self.descriptors / 4)
    }

    fn free(&self) -> usize {
        let used: usize = self.origins.values().map(Usage::descriptors).sum();
        self.descriptors.saturating_sub(used)
    }

    /// Returns true if so few descriptors are left that one message might carry more.
    pub(crate) fn is_scarce(&self) -> bool {
        self.most_connections.is_none() && self.free() < self.reserve()
    }

    /// Returns true if the clients of this origin use more descriptors than their share.
    pub(crate) fn is_greedy(&self, origin: Origin) -> bool {
        let usage = self.origins.get(&origin);
        self.most_connections.is_none()
            && usage.is_some_and(|usage| usage.descriptors() > self.share())
    }

    /// Returns the origin that has to lose connections so that others can have some.
    pub(crate) fn greediest(&self) -> Option<Origin> {
        if !self.is_scarce() {
            return None;
        }
        let share = self.share();
        let greedy = self.origins.iter().filter(|(_, usage)| {
            // Connections that are already being closed do not count.
            usage.connections * PER_CONNECTION > share
        });
        let (origin, _) = greedy.max_by_key(|(_, usage)| usage.connections)?;
        Some(*origin)
    }

    /// Notes a change of the memory held for a client. If that exceeds the limit of its origin or
    /// of all, returns the origin that has to release memory, and its new limit.
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

/// The error of a connection whose origin has too many.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) connections: usize,
    pub(crate) is_first: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closer::Closer;

    /// Users and their shares of a hundred connections, apart from the reserve.
    struct Shared {
        admission: Admission,
        closer: Closer,
    }

    impl Shared {
        fn new() -> Self {
            let mut admission = Admission::new(&Limits::default());
            admission.descriptors = 100 * PER_CONNECTION + RESERVE;
            // At least the reserve.
            assert_eq!(admission.reserve(), admission.descriptors / 4);
            let closer = Closer::new();
            Self { admission, closer }
        }

        fn account(&mut self, uid: u32) -> Arc<Account> {
            let (origin, closer) = (Origin::User(uid), &self.closer);
            self.admission.account(origin, || closer.account(origin))
        }

        /// Connects until a connection is refused; returns the number of accepted ones.
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
    fn late_users_get_an_equal_share() {
        let mut shared = Shared::new();
        let first = shared.fill(1);
        let second = shared.fill(2);
        let third = shared.fill(3);
        // A half, a third, a fourth of the descriptors apart from the reserve.
        let usable = shared.admission.descriptors - shared.admission.reserve();
        let of = |part: usize| usable / part / PER_CONNECTION;
        assert_eq!((first, second, third), (of(2), of(3), of(4)));
        assert!(!shared.admission.is_scarce());
        // Once there are many users, those who had more have no more than the others.
        for uid in 4..=6 {
            assert_eq!(shared.fill(uid), FEW_CONNECTIONS.max(of(uid as usize + 1)));
        }
    }

    #[test]
    fn descriptors_to_be_closed_count() {
        let mut shared = Shared::new();
        let account = shared.account(1);
        let disposer = crate::closer::Disposer(account);
        let most = shared.fill(1);
        assert!(!shared.admission.is_greedy(Origin::User(1)));
        // Passed descriptors are counted.
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
        // The service keeps these descriptors.
        for _ in passed {
            ferretto_ipc::Disposal::taken(&disposer);
        }
        assert!(shared.admission.admit(Origin::User(1)).is_ok());
    }

    #[test]
    fn the_user_with_the_most_bytes_has_to_release_some() {
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
        // The third is far below its own limit.
        let worst = admission.changed(third, 5, 6);
        assert_eq!(worst, Some((second, most * HELD_BY_ALL / 3)));
        assert_eq!(admission.changed(second, most, 0), None);
        assert_eq!(admission.changed(third, 6, most + 1), Some((third, most)));
    }
}
