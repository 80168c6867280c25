//! The admission of clients to the reactor: which ones are served, and which have to leave.

use std::sync::Arc;

use ferretto_service::ClientId;

use super::Reactor;
use crate::admission::PER_CONNECTION;
use crate::closer::Account;
use crate::notice::Notice;
use crate::origin::Origin;

impl Reactor {
    /// The account of an origin.
    pub(crate) fn account_of(&mut self, origin: Origin) -> Arc<Account> {
        let closer = &self.closer;
        self.admission.account(origin, || closer.account(origin))
    }

    /// Returns true if one more connection from there is served; if not, the operator is told,
    /// once. If descriptors become few, those who have the most lose a connection or two.
    pub(crate) fn admit(&mut self, origin: Origin) -> bool {
        let served = |user| [Origin::User(user), Origin::User(0)].contains(&origin);
        if !self.only_user.is_none_or(served) {
            return false;
        }
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
            self.notices.report(&Notice::MadeRoom { client, origin });
            self.lose(id);
        }
        true
    }

    /// To be called when a connection is over.
    pub(crate) fn release(&mut self, origin: Origin, held: usize) {
        self.admission.changed(origin, held, 0);
        self.admission.release(origin);
    }

    /// To be called after a client's queue or unfinished frame changed. If the clients of its user
    /// have too much of both together, the one with the most has to go.
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
            self.lose(id);
        }
    }
}
