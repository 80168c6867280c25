//! Decides which clients are served, and which have to be disconnected.

use std::sync::Arc;

use ferretto_service::ClientId;

use super::Reactor;
use crate::admission::PER_CONNECTION;
use crate::closer::Account;
use crate::notice::Notice;
use crate::origin::Origin;

impl Reactor {
    /// Returns the account of an origin.
    pub(crate) fn account_of(&mut self, origin: Origin) -> Arc<Account> {
        let closer = &self.closer;
        self.admission.account(origin, || closer.account(origin))
    }

    /// Returns true if the host serves clients of this origin.
    pub(crate) fn is_wanted(&self, origin: Origin) -> bool {
        let served = |user| [Origin::User(user), Origin::User(0)].contains(&origin);
        self.only_user.is_none_or(served)
    }

    /// Returns true if one more connection of this origin is served. A refusal is reported to the
    /// operator once. If descriptors become scarce, the origin with the most loses a connection or
    /// two.
    pub(crate) fn admit(&mut self, origin: Origin) -> bool {
        if let Err(refused) = self.admission.admit(origin) {
            if refused.is_first {
                let limit = refused.connections;
                self.notices
                    .report(&Notice::TooManyConnections { origin, limit });
            }
            return false;
        }
        for _ in 0..PER_CONNECTION {
            let Some(origin) = self.admission.greediest() else {
                break;
            };
            let of_origin = self.clients.values().filter(|c| c.origin == origin);
            let Some(newest) = of_origin.max_by_key(|client| client.id) else {
                break;
            };
            let (id, client) = (newest.id, newest.name());
            self.notices.report(&Notice::Evicted { client, origin });
            self.cut_off(id);
        }
        true
    }

    /// Removes a connection from the counts. Call this when it ends.
    pub(crate) fn release(&mut self, origin: Origin, held: usize) {
        self.admission.changed(origin, held, 0);
        self.admission.release(origin);
    }

    /// Accounts for a change of a client's queue or unfinished frame. If the clients of its user
    /// hold too many bytes together, the one with the most is disconnected.
    pub(crate) fn account(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let after = client.socket.queued() + client.connection.held();
        let origin = client.origin;
        let before = std::mem::replace(&mut client.accounted, after);
        if before == after {
            return;
        }
        let Some((origin, limit)) = self.admission.changed(origin, before, after) else {
            return;
        };
        let of_origin = self.clients.values().filter(|c| c.origin == origin);
        if let Some(worst) = of_origin.max_by_key(|client| client.accounted) {
            let (id, client) = (worst.id, worst.name());
            self.notices.report(&Notice::TooMuchHeld {
                client,
                origin,
                limit,
            });
            self.cut_off(id);
        }
    }
}
