//! Reads the bytes of a client, splits them into frames, and turns these into events for the
//! service.

use ferretto_ipc::PassedFd;
use ferretto_ipc::host::{Action, Incoming, Request};
use ferretto_ipc::socket::{ReceiveError, Received};
use ferretto_service::driver::clocks;
use ferretto_service::{ClientId, Event};

use super::{Now, Reactor};
use crate::client::Role;
use crate::notice::Notice;
use crate::remote::RemoteRefusal;
use crate::sending::is_closed;

/// The number of bytes read from a consumer before its replies are checked: a short request can
/// have a long reply.
const CONSUMER_READ: usize = 1024;

impl Reactor {
    /// Reads some bytes from a client, and passes on its requests. Returns true if there may be
    /// more.
    pub(super) fn read(&mut self, id: ClientId, piece: usize) -> bool {
        let mut total = 0;
        while total < piece {
            let Some(client) = self.clients.get_mut(&id) else {
                return false;
            };
            if !client.may_read(&self.limits) {
                // `flush` resumes the reads.
                return false;
            }
            let size = match client.role {
                Role::Producer { .. } => piece.min(self.buffer.len()),
                Role::Consumer => piece.min(CONSUMER_READ),
            };
            // Without space for descriptors, the kernel would close them on this thread.
            if self.admission.is_scarce()
                && client.socket.brings_descriptors(&mut self.buffer[..size])
            {
                self.refuse_descriptors(id);
                return false;
            }
            match client.socket.receive(&mut self.buffer[..size]) {
                Ok(Received::Data { len, fd }) => {
                    total += len;
                    if fd.is_some() && self.admission.is_greedy(client.origin) {
                        self.refuse_descriptors(id);
                        return false;
                    }
                    // The buffer was not filled, so there is no more, and the poller announces new
                    // bytes. A receive also ends after a descriptor, and the end of the stream
                    // needs another read.
                    if len < size && fd.is_none() && !client.peer_closed {
                        client.readable = false;
                        if client.socket.queued() > 0 {
                            self.dirty.insert(id);
                        }
                        self.receive(id, len, fd);
                        return false;
                    }
                    self.receive(id, len, fd);
                }
                Ok(Received::WouldBlock) => {
                    client.readable = false;
                    // The encryption layer may have its own bytes to send.
                    if client.socket.queued() > 0 {
                        self.dirty.insert(id);
                    }
                    return false;
                }
                Ok(Received::Closed) => {
                    self.lose(id);
                    return false;
                }
                Err(error) => {
                    let is_closed = matches!(&error, ReceiveError::Io(error) if is_closed(error));
                    let client = client.name();
                    self.notices
                        .report(&Notice::ReceiveFailed { client, error });
                    if is_closed {
                        self.lose(id);
                    } else {
                        self.cut_off(id);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn refuse_descriptors(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get(&id) {
            let (origin, client) = (client.origin, client.name());
            self.notices
                .report(&Notice::TooManyDescriptors { client, origin });
        }
        self.cut_off(id);
    }

    /// Handles `len` bytes in the buffer, received from a client.
    fn receive(&mut self, id: ClientId, len: usize, fd: Option<PassedFd>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let now = Now::new(clocks::read);
        let mut decoder = client.connection.take_decoder();
        let buffer = std::mem::take(&mut self.buffer);
        let received = decoder.decode(&buffer[..len], fd, |payload, fd| {
            self.take_frame(&now, id, payload, fd);
        });
        self.buffer = buffer;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.connection.put_back(decoder);
        if let Err(error) = received {
            let client = client.name();
            self.notices.report(&Notice::BadFrame { client, error });
            return self.reject(id);
        }
        self.account(id);
    }

    fn take_frame(&mut self, now: &Now, id: ClientId, payload: &[u8], fd: Option<PassedFd>) {
        // An earlier frame may have ended the connection.
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.closing) else {
            return;
        };
        // Commits, the most frequent request, have a fast path.
        if client.announced
            && fd.is_none()
            && let Some(call) = client.connection.commit(payload, &mut self.commit)
        {
            let request_id = (!call.drop_reply).then_some(call.request_id);
            let commit = &self.commit;
            if self
                .service
                .commit_at_once(|| **now, id, request_id, commit)
            {
                if let Some(command) = self.service.poll_command() {
                    self.execute(now, command);
                    self.carry_out(now);
                }
                return;
            }
        }
        match client.connection.take_frame(payload, fd) {
            Some(Action::Send(frame)) => self.send(id, frame, None),
            Some(Action::Invoke(_))
                if client.connection.is_unidentified() && self.requires_identity =>
            {
                let client = client.name();
                self.notices.report(&Notice::Unidentified { client });
                self.reject(id);
            }
            Some(Action::Invoke(incoming)) => {
                if !std::mem::replace(&mut client.announced, true) {
                    let peer = client.connection.peer();
                    let (machine, name) = (peer.machine_id, &peer.machine_name[..]);
                    let is_named = client.socket.vouches_for(name) != Some(false);
                    if let Some(remote) = &mut client.remote
                        && let Err(refusal) = if is_named {
                            self.remotes.identify(remote, machine, name)
                        } else {
                            Err(RemoteRefusal::OtherName)
                        }
                    {
                        client.announced = false;
                        let host = remote.host;
                        self.notices
                            .report(&Notice::RemoteRefused { host, refusal });
                        return self.reject(id);
                    }
                    let event = client.announcement();
                    self.deliver(now, event);
                }
                self.deliver(now, request_event(id, incoming));
            }
            None => {}
        }
    }
}

/// Returns the event for a call.
fn request_event(client: ClientId, incoming: Incoming) -> Event {
    let Incoming {
        request_id,
        drop_reply,
        request,
        fd,
    } = incoming;
    let request_id = (!drop_reply).then_some(request_id);
    match request {
        Request::Producer(request) => Event::ProducerRequest {
            client,
            request_id,
            request,
            fd,
        },
        Request::Consumer(request) => Event::ConsumerRequest {
            client,
            request_id,
            request: *request,
            fd,
        },
        Request::Relay(request) => Event::RelayRequest {
            client,
            request_id,
            request: *request,
        },
    }
}
