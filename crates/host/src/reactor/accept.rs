//! Accepts, refuses and closes new connections.

use std::sync::Arc;

use ferretto_ipc::socket::Socket;
use ferretto_service::ClientId;
use ferretto_service::driver::clocks;
use mio::unix::SourceFd;
use mio::{Interest, Token};

use super::Reactor;
use crate::client::Client;
use crate::closer::{Disposer, Remains};
use crate::notice::Notice;
use crate::origin::Origin;

/// The number of connections that one socket accepts in a turn.
const ACCEPT_PER_TURN: usize = 16;
/// The time to wait after accepting failed for lack of descriptors.
const ACCEPT_RETRY: u64 = 100_000_000;

impl Reactor {
    pub(super) fn accept(&mut self) {
        if self.accept_again.is_some_and(|at| clocks::boottime() < at) {
            return;
        }
        self.accept_again = None;
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPT_PER_TURN {
                let state = &mut self.listeners[index];
                if !state.ready {
                    break;
                }
                match state.listener.accept() {
                    Ok(None) => state.ready = false,
                    Ok(Some(mut socket)) => {
                        if let Err(error) = self.secure(&mut socket) {
                            self.notices.report(&Notice::AcceptFailed(error));
                            self.turn_away(Origin::Remote, socket);
                            continue;
                        }
                        let state = &mut self.listeners[index];
                        let id = ClientId(self.next_client);
                        self.next_client += 1;
                        let services = Arc::clone(&state.services);
                        let client = Client::new(id, state.role, services, socket, &self.limits);
                        let origin = client.as_ref().ok().map(|client| client.origin);
                        match client {
                            Ok(client) => self.add(client),
                            Err(socket) => {
                                self.note_turned_away(self.listeners[index].role);
                                self.turn_away(Origin::Remote, socket);
                            }
                        }
                        self.count(origin);
                    }
                    Err(error) => {
                        self.note_turned_away(self.listeners[index].role);
                        self.accept_again = Some(clocks::boottime() + ACCEPT_RETRY);
                        self.notices.report(&Notice::AcceptFailed(error));
                        return;
                    }
                }
            }
        }
    }

    /// Encrypts a connection from another machine, if an encryption is set.
    fn secure(&self, socket: &mut Socket) -> std::io::Result<()> {
        if let Some(security) = &self.security
            && !socket.is_unix()
        {
            socket.put_on(security.accepting()?);
        }
        Ok(())
    }

    fn add(&mut self, mut client: Client) {
        let account = self.account_of(client.origin);
        let most = self.admission.most_connections_of_one();
        client.remote = match self.remotes.admit(&client.socket, most) {
            Ok(remote) => remote,
            Err((host, refusal)) => {
                self.notices
                    .report(&Notice::RemoteRefused { host, refusal });
                return self.turn_away(client.origin, client.socket);
            }
        };
        if !self.is_wanted(client.origin) || !self.admit(client.origin) {
            if self.is_wanted(client.origin) {
                self.note_turned_away(client.role);
            }
            if let Some(remote) = client.remote {
                self.remotes.release(remote);
            }
            return self.turn_away(client.origin, client.socket);
        }
        client.socket.set_disposal(Arc::new(Disposer(account)));
        let token = Token(client.id.0 as usize);
        let fd = client.raw_fd();
        match self
            .registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
        {
            Ok(()) => {
                let id = client.id;
                self.clients.insert(id, client);
                self.line_up(id);
            }
            Err(error) => {
                self.note_turned_away(client.role);
                self.release(client.origin, 0);
                if let Some(remote) = client.remote {
                    self.remotes.release(remote);
                }
                self.turn_away(client.origin, client.socket);
                self.notices.report(&Notice::AcceptFailed(error));
            }
        }
    }

    /// Ends a connection that is not served. It may contain descriptors nevertheless.
    fn turn_away(&mut self, origin: Origin, mut socket: Socket) {
        if !socket.shut_down() {
            self.account_of(origin)
                .dispose(Remains::Connection(socket, None));
        }
    }
}
