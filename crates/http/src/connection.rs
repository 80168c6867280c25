//! The state of one connection.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::head::Head;
use crate::reply::Client;
use crate::site::{Events, Request, Session};
use crate::websocket::{self, Decoder, Event};

/// The number of bytes to read at a time.
pub(crate) const PIECE: usize = 64 << 10;

pub(crate) enum State {
    /// A request begins.
    Head,
    /// The body of an admitted request arrives.
    Body(Box<Request>),
    /// A thread works for the connection. `frames` decodes what comes after.
    Busy { frames: Option<Decoder> },
    /// Events are sent.
    Events(Events),
    /// A session receives bytes, in frames or as they are.
    Session {
        session: Box<dyn Session>,
        frames: Option<Decoder>,
    },
    /// The last reply is sent. Closing a socket with unread bytes would discard it.
    Closing,
}

/// The result of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Some,
    Nothing,
    End,
    /// This many bytes are read, but the budget has no memory for them.
    OverBudget(usize),
}

/// The bytes that a session receives next.
pub(crate) enum Received {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) state: State,
    /// Received bytes that are not decoded yet.
    pub(crate) input: Vec<u8>,
    pub(crate) is_admitted: bool,
    /// True if the socket is a Unix socket, on which the end of the client's sending side is known
    /// from the end of the connection.
    pub(crate) is_local: bool,
    /// The time at which the connection is closed.
    pub(crate) deadline: Option<Instant>,
    /// The time at which bytes arrived, or the last request was answered.
    pub(crate) active: Instant,
}

impl Connection {
    pub(crate) fn new(client: Client, state: State, is_local: bool) -> Self {
        Self {
            client,
            state,
            input: Vec::new(),
            is_admitted: false,
            is_local,
            deadline: None,
            active: Instant::now(),
        }
    }

    /// Returns the events to wait for; `None` if the socket is of no interest now.
    pub(crate) fn interest(&self) -> Option<PollFlags> {
        match self.state {
            State::Busy { .. } if self.client.is_gone() => None,
            State::Busy { .. } if self.is_local => Some(PollFlags::empty()),
            State::Busy { .. } => Some(PollFlags::RDHUP),
            _ => Some(PollFlags::IN),
        }
    }

    /// Returns true if the connection waits for a request, of which nothing has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.input.is_empty()
    }

    /// Closes the connection after this time, if nothing happens.
    pub(crate) fn expire_after(&mut self, time: Duration) {
        self.active = Instant::now();
        self.deadline = self.active.checked_add(time);
    }

    /// Reads bytes to where the state needs them. `max_head` is the largest number of bytes of a
    /// request without its body.
    pub(crate) fn read(&mut self, scratch: &mut [u8], max_head: usize) -> Read {
        let most = match &self.state {
            State::Head => (max_head + 1).saturating_sub(self.input.len()).max(1),
            State::Body(request) => request.missing(),
            _ => scratch.len(),
        };
        let most = most.min(scratch.len());
        let count = match recv(
            self.client.socket(),
            &mut scratch[..most],
            RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => return Read::End,
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Read::Nothing,
            Err(_) => return Read::End,
        };
        let bytes = &scratch[..count];
        match &mut self.state {
            State::Body(request) => {
                if request.extend(bytes).is_err() {
                    return Read::OverBudget(count);
                }
            }
            State::Head | State::Session { .. } => self.input.extend_from_slice(bytes),
            State::Busy { .. } | State::Events(_) | State::Closing => {}
        }
        self.active = Instant::now();
        Read::Some
    }

    /// Takes a request without its body from the input, if all of it has arrived. The error is
    /// true if it is too long, and false if it is malformed.
    pub(crate) fn take_head(&mut self, max_head: usize) -> Result<Option<Head>, bool> {
        let end = self.input.windows(4).position(|w| w == b"\r\n\r\n");
        let Some(end) = end.map(|end| end + 4) else {
            return if self.input.len() > max_head {
                Err(true)
            } else {
                Ok(None)
            };
        };
        let head = Head::parse(&self.input[..end]).ok_or(false)?;
        self.input.drain(..end);
        Ok(Some(head))
    }

    /// Returns the next bytes of a session, and replies to control frames.
    pub(crate) fn receive(&mut self) -> Received {
        let State::Session { frames, .. } = &mut self.state else {
            return Received::Nothing;
        };
        let Some(decoder) = frames else {
            return match std::mem::take(&mut self.input) {
                bytes if bytes.is_empty() => Received::Nothing,
                bytes => Received::Bytes(bytes),
            };
        };
        loop {
            match decoder.next(&mut self.input) {
                None => return Received::Nothing,
                Some(Event::Data(bytes)) => return Received::Bytes(bytes),
                Some(Event::Ping(payload)) => {
                    if !self
                        .client
                        .push(&websocket::frame(websocket::PONG, &payload))
                    {
                        return Received::End;
                    }
                }
                Some(Event::Close(payload)) => {
                    let _ = self
                        .client
                        .push(&websocket::frame(websocket::CLOSE, &payload));
                    return Received::End;
                }
            }
        }
    }
}
