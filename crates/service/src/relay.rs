//! What relays of other machines tell about them.

use ferretto_ipc::port::relay::{Reply, Request};

use crate::command::Command;
use crate::event::ClientId;
use crate::service::Service;

impl Service {
    pub(crate) fn relay_request(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: Request,
    ) {
        if !self.producer_connections.contains_key(&client) {
            return;
        }
        let reply = match request {
            Request::InitRelay(_) => Reply::InitRelay(Default::default()),
            Request::SyncClock(_) => Reply::SyncClock(Default::default()),
        };
        // Before anything else: the relay measures how long the answer takes.
        if let Some(request_id) = request_id {
            self.commands.push_back(Command::RelayReply {
                client,
                request_id,
                reply,
            });
        }
    }
}
