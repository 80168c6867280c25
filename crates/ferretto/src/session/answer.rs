//! Receivers of the service's answers.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferretto_client::recording;
use ferretto_engine::lock;
use ferretto_format::Preamble;

use super::SessionError;
use super::call::{Completer, Deadline};

/// Receives the answer to one call.
pub(super) trait Answer: Send {
    /// Returns the name of the call, for messages.
    fn call(&self) -> &'static str;
    fn deadline(&self) -> Deadline;
    /// Receives packets.
    fn add(&mut self, packets: Vec<Vec<u8>>) {
        drop(packets);
    }
    /// Receives the final result.
    fn finish(self: Box<Self>, result: Result<recording::Answer, SessionError>);
    /// Fails the call with a timeout. A later answer is still accepted.
    fn time_out(&mut self);
}

/// An answer in one piece.
pub(super) struct Single<T, F> {
    done: Completer<T>,
    convert: F,
}

impl<T, F> Single<T, F>
where
    F: FnOnce(recording::Answer) -> Option<T>,
{
    /// Creates a receiver. `convert` converts the service's answer to the caller's result.
    pub(super) fn new(done: Completer<T>, convert: F) -> Self {
        Self { done, convert }
    }
}

impl<T, F> Answer for Single<T, F>
where
    T: Send,
    F: FnOnce(recording::Answer) -> Option<T> + Send,
{
    fn call(&self) -> &'static str {
        self.done.name()
    }

    fn deadline(&self) -> Deadline {
        self.done.deadline()
    }

    fn finish(self: Box<Self>, result: Result<recording::Answer, SessionError>) {
        let Self { done, convert } = *self;
        let refused = || SessionError::Refused {
            call: done.name(),
            reason: String::new(),
        };
        let result = result.and_then(|answer| convert(answer).ok_or_else(refused));
        done.complete(result);
    }

    fn time_out(&mut self) {
        self.done.time_out();
    }
}

/// The bytes read for an abandoned call, kept for the next reader.
#[derive(Debug, Default)]
pub(super) struct Unread(Mutex<Vec<u8>>);

impl Unread {
    pub(super) fn keep(&self, bytes: &[u8]) {
        lock(&self.0).extend(bytes);
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// A trace, written as it arrives.
pub(super) struct Trace<W> {
    done: Completer<W>,
    writer: W,
    limit: Duration,
    unread: Arc<Unread>,
    has_begun: bool,
    error: Option<SessionError>,
}

impl<W: Write> Trace<W> {
    /// Creates a receiver. `limit` is the time limit of each part of the answer.
    pub(super) fn new(done: Completer<W>, writer: W, limit: Duration, unread: Arc<Unread>) -> Self {
        Self {
            done,
            writer,
            limit,
            unread,
            has_begun: false,
            error: None,
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut W) -> std::io::Result<()>) {
        if self.error.is_none() {
            self.error = write(&mut self.writer).err().map(SessionError::Write);
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let unread = self.unread.take();
            self.write(|writer| writer.write_all(&unread));
        }
    }
}

impl<W: Write + Send> Answer for Trace<W> {
    fn call(&self) -> &'static str {
        self.done.name()
    }

    fn deadline(&self) -> Deadline {
        self.done.deadline()
    }

    fn add(&mut self, packets: Vec<Vec<u8>>) {
        self.done.extend(self.limit);
        self.begin();
        for packet in packets {
            self.write(|writer| {
                writer.write_all(Preamble::new(packet.len()).as_bytes())?;
                writer.write_all(&packet)
            });
        }
    }

    fn finish(mut self: Box<Self>, result: Result<recording::Answer, SessionError>) {
        if let Err(error) = result {
            self.done.complete(Err(error));
            return;
        }
        self.begin();
        self.write(Write::flush);
        match self.error {
            Some(error) => self.done.complete(Err(error)),
            None => self.done.complete(Ok(self.writer)),
        }
    }

    fn time_out(&mut self) {
        self.done.time_out();
    }
}
