//! Sends replies, and handles full sockets and clients that do not read.

use std::io;
use std::os::fd::OwnedFd;

use ferretto_ipc::socket::QueueError;
use ferretto_service::driver::clocks;
use ferretto_service::{ClientId, Event};
use mio::unix::SourceFd;
use mio::{Interest, Token};

use crate::client::Role;
use crate::notice::Notice;
use crate::reactor::Reactor;

impl Reactor {
    /// Queues a frame for a client.
    pub(crate) fn send(&mut self, id: ClientId, frame: Vec<u8>, fd: Option<OwnedFd>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.closing {
            return;
        }
        match client.socket.queue(frame, fd) {
            Ok(()) => {
                self.dirty.insert(id);
                self.account(id);
            }
            Err(error @ (QueueError::Overflow { .. } | QueueError::FrameTooLarge { .. })) => {
                let client = client.name();
                self.notices.report(&Notice::QueueFull { client, error });
                self.cut_off(id);
            }
        }
    }

    /// Sends at once. The result is handled at the end of the turn.
    pub(crate) fn send_at_once(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            let _ = client.socket.flush();
            self.account(id);
        }
    }

    /// Sends as many bytes as a client's socket takes.
    pub(crate) fn flush(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let before = client.socket.queued();
        let empty = match client.socket.flush() {
            Ok(empty) => empty,
            Err(error) if is_closed(&error) => return self.lose(id),
            Err(_) => return self.cut_off(id),
        };
        if empty && client.closing {
            return self.lose(id);
        }
        self.account(id);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if empty {
            client.stalled_since = None;
            self.unsent.remove(&id);
        } else {
            let progress = client.socket.queued() < before;
            if progress || client.stalled_since.is_none() {
                client.stalled_since = Some(clocks::read().monotonic);
            }
            self.unsent.insert(id);
        }
        if client.waits_to_write == empty {
            client.waits_to_write = !empty;
            let interest = if empty {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let (fd, token) = (client.raw_fd(), Token(id.0 as usize));
            if self
                .registry
                .reregister(&mut SourceFd(&fd), token, interest)
                .is_err()
            {
                return self.cut_off(id);
            }
        }
        let may_read = client.may_read(&self.limits);
        if may_read {
            self.line_up(id);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.wants_drained && client.socket.queued() < self.limits.consumer_low_water {
            client.wants_drained = false;
            self.deliver(&clocks::read(), Event::ConsumerDrained { client: id });
        }
    }

    /// Returns the time at which the next client counts as stalled, in `CLOCK_BOOTTIME`.
    pub(crate) fn next_stall(&self) -> Option<u64> {
        if self.unsent.is_empty() {
            return None;
        }
        let now = clocks::read();
        let patience = self.limits.consumer_stall;
        self.stalling()
            .map(|(_, since)| {
                let left = since.saturating_add(patience).saturating_sub(now.monotonic);
                now.boottime.saturating_add(left)
            })
            .min()
    }

    /// Returns the clients that can stall: consumers, and clients that are being disconnected.
    fn stalling(&self) -> impl Iterator<Item = (ClientId, u64)> {
        self.unsent.iter().filter_map(|id| {
            let client = self.clients.get(id)?;
            let counts = client.role == Role::Consumer || client.closing;
            Some((*id, client.stalled_since.filter(|_| counts)?))
        })
    }

    pub(crate) fn drop_stalled(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        let (now, patience) = (clocks::read().monotonic, self.limits.consumer_stall);
        let stalled: Vec<ClientId> = self
            .stalling()
            .filter(|(_, since)| now.saturating_sub(*since) >= patience)
            .map(|(id, _)| id)
            .collect();
        for id in stalled {
            if let Some(client) = self.clients.get(&id) {
                let (client, seconds) = (client.name(), patience / 1_000_000_000);
                self.notices.report(&Notice::Stalled { client, seconds });
            }
            self.cut_off(id);
        }
    }

    /// Reports to the service, at the latest in the next turn, when this consumer's queue is short.
    pub(crate) fn report_when_drained(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.wants_drained = true;
            self.dirty.insert(id);
        }
    }

    /// Ends a connection once its queue is sent.
    pub(crate) fn close_after_flush(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.closing = true;
            self.dirty.insert(id);
        }
    }
}

/// Returns true if an error means that the peer has closed the connection.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
