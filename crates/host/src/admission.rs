//! What the clients of one user may cost together.

use std::collections::HashMap;
use std::fmt;

use ferretto_service::ClientId;
use rustix::process::{Resource, getrlimit};

use crate::notice::Notice;
use crate::options::Limits;
use crate::reactor::Reactor;

/// Connections that anyone may have, however few descriptors there are.
const FEW_CONNECTIONS: u64 = 16;

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A user of this machine.
    User(u32),
    /// Everyone on other machines: nobody vouches for who they say they are.
    Remote,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(out, "user {uid}"),
            Self::Remote => out.write_str("other machines"),
        }
    }
}

/// The connections of each origin, and what is held for them.
#[derive(Debug)]
pub(crate) struct Admission {
    most_connections: usize,
    most_held: usize,
    origins: HashMap<Origin, Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    connections: usize,
    /// Bytes of what is not sent yet and of unfinished frames.
    held: usize,
    /// Whether the operator knows that connections are refused.
    is_told: bool,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            most_connections: limits.connections_per_user.unwrap_or_else(affordable),
            most_held: limits.held_per_user,
            origins: HashMap::new(),
        }
    }

    /// Counts a new connection, unless there are too many.
    fn admit(&mut self, origin: Origin) -> Result<(), Refused> {
        let usage = self.origins.entry(origin).or_default();
        if usage.connections < self.most_connections {
            usage.connections += 1;
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut usage.is_told, true);
        Err(Refused {
            limit: self.most_connections,
            is_first,
        })
    }

    fn release(&mut self, origin: Origin) {
        let Some(usage) = self.origins.get_mut(&origin) else {
            return;
        };
        usage.connections = usage.connections.saturating_sub(1);
        // Not at each connection that comes in place of one that left.
        if usage.connections < self.most_connections / 2 {
            usage.is_told = false;
        }
        if usage.connections == 0 {
            self.origins.remove(&origin);
        }
    }

    /// Notes that what is held for a client changed, and returns whether it is too much for its user.
    fn changed(&mut self, origin: Origin, before: usize, after: usize) -> bool {
        let Some(usage) = self.origins.get_mut(&origin) else {
            return false;
        };
        usage.held = usage.held.saturating_sub(before).saturating_add(after);
        usage.held > self.most_held
    }
}

#[derive(Debug)]
struct Refused {
    limit: usize,
    is_first: bool,
}

/// As many connections as take half of the descriptors this process may open: with its memory, one takes
/// two.
fn affordable() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((descriptors / 4).max(FEW_CONNECTIONS)).unwrap_or(usize::MAX)
}

impl Reactor {
    /// Whether one more connection from there is served; if not, the operator is told, once.
    pub(crate) fn admit(&mut self, origin: Origin) -> bool {
        match self.admission.admit(origin) {
            Ok(()) => true,
            Err(refused) => {
                if refused.is_first {
                    let limit = refused.limit;
                    self.notices
                        .report(&Notice::TooManyConnections { origin, limit });
                }
                false
            }
        }
    }

    /// To be called when a connection is over.
    pub(crate) fn release(&mut self, origin: Origin, held: usize) {
        self.admission.changed(origin, held, 0);
        self.admission.release(origin);
    }

    /// To be called after a client's queue or unfinished frame changed. If the clients of its user have
    /// too much of both together, the one with the most has to go.
    pub(crate) fn account(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let after = client.socket.queued() + client.connection.held();
        let origin = client.origin;
        let before = std::mem::replace(&mut client.accounted, after);
        if before == after || !self.admission.changed(origin, before, after) {
            return;
        }
        let of_origin = self.clients.values().filter(|c| c.origin == origin);
        if let Some(worst) = of_origin.max_by_key(|client| client.accounted) {
            let (id, client, limit) = (worst.id, worst.name(), self.admission.most_held);
            self.notices.report(&Notice::TooMuchHeld {
                client,
                origin,
                limit,
            });
            self.lose(id);
        }
    }
}
