//! What becomes of the service's answers.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use ferretto_client::Packets;
use ferretto_client::consumer_port::{Reply, Request};
use ferretto_format::Preamble;
use ferretto_proto::{Message as _, TracingServiceState};
use rustix::fd::OwnedFd;

use super::SessionError;
use super::call::{Completer, Deadline};
use super::inbox::Inbox;

/// A request, and what becomes of the answer.
pub(super) struct Question {
    pub(super) request: Request,
    pub(super) fd: Option<OwnedFd>,
    pub(super) needs: Needs,
    pub(super) answer: Box<dyn Answer>,
}

/// What there has to be for a request to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A recording that runs.
    Running,
    /// A recording that has been started, or a copy of one.
    Recorded,
    /// That, and that nobody else reads it.
    Turn,
}

/// Takes the answer to one request, which may come in parts.
pub(super) trait Answer: Send {
    /// What was asked for, for messages.
    fn call(&self) -> &'static str;
    fn deadline(&self) -> Deadline;
    /// Takes a part.
    fn add(&mut self, part: Reply);
    /// There are no more parts.
    fn finish(self: Box<Self>);
    /// There will be no answer.
    fn fail(self: Box<Self>, error: SessionError);
    /// Tells the caller that time is over. Returns whether the rest of the answer matters all the same.
    fn time_out(&mut self) -> bool;
}

/// An answer in one part.
pub(super) struct Single<T, F> {
    done: Completer<T>,
    convert: F,
    result: Option<Result<T, SessionError>>,
}

impl<T, F> Single<T, F>
where
    F: FnMut(Reply) -> Result<T, SessionError>,
{
    /// `convert` makes of the service's answer what the caller gets.
    pub(super) fn new(done: Completer<T>, convert: F) -> Self {
        Self {
            done,
            convert,
            result: None,
        }
    }
}

impl<T, F> Answer for Single<T, F>
where
    T: Send,
    F: FnMut(Reply) -> Result<T, SessionError> + Send,
{
    fn call(&self) -> &'static str {
        self.done.name()
    }

    fn deadline(&self) -> Deadline {
        self.done.deadline()
    }

    fn add(&mut self, part: Reply) {
        self.result = Some((self.convert)(part));
    }

    fn finish(self: Box<Self>) {
        let refused = || refused(self.done.name());
        let result = self.result.unwrap_or_else(|| Err(refused()));
        self.done.complete(result);
    }

    fn fail(self: Box<Self>, error: SessionError) {
        self.done.complete(Err(error));
    }

    fn time_out(&mut self) -> bool {
        self.done.time_out();
        false
    }
}

/// The state of the service, whose parts are the pieces of one encoding.
pub(super) struct State {
    done: Completer<TracingServiceState>,
    encoded: Vec<u8>,
}

impl State {
    pub(super) fn new(done: Completer<TracingServiceState>) -> Self {
        Self {
            done,
            encoded: Vec::new(),
        }
    }
}

impl Answer for State {
    fn call(&self) -> &'static str {
        self.done.name()
    }

    fn deadline(&self) -> Deadline {
        self.done.deadline()
    }

    fn add(&mut self, part: Reply) {
        if let Reply::QueryServiceState(part) = part
            && let Some(state) = part.service_state.as_option()
        {
            self.encoded.extend(state.encode_to_vec());
        }
    }

    fn finish(self: Box<Self>) {
        let state = TracingServiceState::decode_from_slice(&self.encoded);
        let refused = || refused(self.done.name());
        let state = state.map_err(|_| refused());
        self.done.complete(state);
    }

    fn fail(self: Box<Self>, error: SessionError) {
        self.done.complete(Err(error));
    }

    fn time_out(&mut self) -> bool {
        self.done.time_out();
        false
    }
}

/// A trace, written as it comes.
pub(super) struct Trace<W> {
    done: Completer<W>,
    writer: W,
    limit: Duration,
    packets: Packets,
    inbox: Arc<Inbox>,
    has_begun: bool,
    error: Option<SessionError>,
    is_late: bool,
}

impl<W: Write> Trace<W> {
    /// `limit` is how long the service may need for each part.
    pub(super) fn new(done: Completer<W>, writer: W, limit: Duration, inbox: Arc<Inbox>) -> Self {
        Self {
            done,
            writer,
            limit,
            packets: Packets::new(),
            inbox,
            has_begun: false,
            error: None,
            is_late: false,
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let unread = self.inbox.take_unread();
            self.error = self
                .writer
                .write_all(&unread)
                .err()
                .map(SessionError::Write);
        }
    }

    fn add_slice(&mut self, data: &[u8], is_last: bool) {
        let writer = &mut self.writer;
        let written = self.packets.add(data, is_last, |packet| {
            writer.write_all(Preamble::new(packet.len()).as_bytes())?;
            writer.write_all(packet)
        });
        self.error = match written {
            Ok(None | Some(Ok(()))) => None,
            Ok(Some(Err(error))) => Some(SessionError::Write(error)),
            Err(_) => Some(SessionError::PacketTooLarge),
        };
    }
}

impl<W: Write + Send> Answer for Trace<W> {
    fn call(&self) -> &'static str {
        self.done.name()
    }

    fn deadline(&self) -> Deadline {
        if self.is_late {
            return Deadline::NEVER;
        }
        self.done.deadline()
    }

    fn add(&mut self, part: Reply) {
        self.done.extend(self.limit);
        self.begin();
        let Reply::ReadBuffers(part) = part else {
            return;
        };
        for slice in part.slices {
            if self.error.is_some() {
                return;
            }
            let is_last = slice.last_slice_for_packet == Some(true);
            self.add_slice(&slice.data.unwrap_or_default(), is_last);
        }
    }

    fn finish(mut self: Box<Self>) {
        self.begin();
        if self.error.is_none() {
            self.error = self.writer.flush().err().map(SessionError::Write);
        }
        match self.error {
            Some(error) => self.done.complete(Err(error)),
            None => self.done.complete(Ok(self.writer)),
        }
    }

    fn fail(self: Box<Self>, error: SessionError) {
        self.done.complete(Err(error));
    }

    fn time_out(&mut self) -> bool {
        self.done.time_out();
        self.is_late = true;
        true
    }
}

fn refused(call: &'static str) -> SessionError {
    SessionError::Refused {
        call,
        reason: String::new(),
    }
}
