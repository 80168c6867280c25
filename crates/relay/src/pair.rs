//! A producer and its connection to the host, with bytes forwarded in both directions.

use std::io;
use std::time::{Duration, Instant};

use crate::end::{End, Read};
use crate::flow::Flow;
use crate::poller::{Interest, Poller};

/// The time that one side may stay open after the other has ended.
const LINGER: Duration = Duration::from_secs(10);
/// The largest number of bytes forwarded for one pair and direction in a turn.
const PER_TURN: usize = 256 * 1024;

/// The two ends of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The producer, on this machine.
    Local,
    /// The host.
    Remote,
}

/// An end with the events that the poller watches.
#[derive(Debug)]
struct Watched {
    end: Box<dyn End>,
    token: u64,
    /// The watched events; `None` if the end is not in the poller.
    interest: Option<Interest>,
    /// Set if the end of the stream was forwarded to this end.
    is_finished: bool,
}

/// Two connections, each of which receives the bytes of the other.
#[derive(Debug)]
pub(crate) struct Pair {
    local: Watched,
    remote: Watched,
    /// From the producer to the host.
    up: Flow,
    down: Flow,
    /// The time by which the second side has to end.
    linger: Option<Instant>,
}

/// The state of a pair after a turn.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The pair continues.
    Goes,
    /// The pair has ended.
    Over,
    /// The pair has failed, which should be reported.
    Failed(Side, io::Error),
}

impl Pair {
    /// Creates a pair that sends `first` to the host before the producer's bytes. Each end has a
    /// token.
    pub(crate) fn new(
        (local, local_token): (Box<dyn End>, u64),
        (remote, remote_token): (Box<dyn End>, u64),
        first: Vec<u8>,
    ) -> Self {
        let watched = |end, token| Watched {
            end,
            token,
            interest: None,
            is_finished: false,
        };
        Self {
            local: watched(local, local_token),
            remote: watched(remote, remote_token),
            up: Flow::beginning_with(first),
            down: Flow::default(),
            linger: None,
        }
    }

    /// Forwards bytes without blocking, and updates the watched events.
    pub(crate) fn turn(&mut self, poller: &Poller, now: Instant, buffer: &mut [u8]) -> Outcome {
        if let Err(error) = pump(&mut self.local, &mut self.remote, &mut self.up, buffer) {
            match error {
                Broken::Source(error) if is_end(&error) => self.up.end(),
                Broken::Source(error) => return Outcome::Failed(Side::Local, error),
                // The host's last messages may give the reason.
                Broken::Sink => {
                    self.up.refuse();
                    self.up.end();
                }
            }
        }
        if let Err(error) = pump(&mut self.remote, &mut self.local, &mut self.down, buffer) {
            match error {
                Broken::Source(error) if is_end(&error) => self.down.end(),
                Broken::Source(error) => return Outcome::Failed(Side::Remote, error),
                // Bytes of the producer are still undelivered.
                Broken::Sink => {
                    self.down.refuse();
                    self.down.end();
                }
            }
        }
        // A closed host takes no bytes; a closed producer may have left some.
        let host_is_gone = self.down.is_done() && !self.down.is_refused();
        if host_is_gone || (self.up.is_done() && (self.down.is_done() || self.up.is_refused())) {
            return Outcome::Over;
        }
        if self.up.has_ended() || self.down.has_ended() {
            let until = *self.linger.get_or_insert(now + LINGER);
            if now >= until {
                return Outcome::Over;
            }
        }
        let local = Interest {
            read: self.up.free() > 0,
            write: !self.down.waiting().is_empty() || self.local.end.wants_write(),
        };
        let remote = Interest {
            read: self.down.free() > 0,
            write: !self.up.waiting().is_empty() || self.remote.end.wants_write(),
        };
        let watched = self.local.watch(poller, local);
        match watched.and_then(|()| self.remote.watch(poller, remote)) {
            Ok(()) => Outcome::Goes,
            Err(error) => Outcome::Failed(Side::Local, error),
        }
    }

    /// Handles a hang-up, which the poller reports until the end is removed: an end that is not to
    /// be read now is not watched until it is.
    pub(crate) fn is_over(&mut self, poller: &Poller, side: Side) {
        let watched = match side {
            Side::Local => &mut self.local,
            Side::Remote => &mut self.remote,
        };
        if watched.interest.is_some_and(|interest| !interest.read) {
            poller.remove(watched.end.fd());
            watched.interest = None;
        }
    }

    /// Stops reading from the producer. Bytes already read are still delivered.
    pub(crate) fn end(&mut self) {
        self.up.end();
    }

    /// Returns the time of the next turn if no event comes first.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.linger
    }

    /// Removes both ends from the poller.
    pub(crate) fn unwatch(&self, poller: &Poller) {
        for watched in [&self.local, &self.remote] {
            if watched.interest.is_some() {
                poller.remove(watched.end.fd());
            }
        }
    }
}

impl Watched {
    fn watch(&mut self, poller: &Poller, wanted: Interest) -> io::Result<()> {
        match self.interest {
            Some(interest) if interest == wanted => return Ok(()),
            Some(_) => poller.change(self.end.fd(), self.token, wanted)?,
            None if wanted == Interest::default() => return Ok(()),
            None => poller.add(self.end.fd(), self.token, wanted)?,
        }
        self.interest = Some(wanted);
        Ok(())
    }
}

/// The end that failed.
enum Broken {
    Source(io::Error),
    Sink,
}

/// Returns true if an error only means that the connection has ended.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    let kind = error.kind();
    [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        TimedOut,
        UnexpectedEof,
    ]
    .contains(&kind)
}

fn pump(
    source: &mut Watched,
    sink: &mut Watched,
    flow: &mut Flow,
    buffer: &mut [u8],
) -> Result<(), Broken> {
    let mut total = 0;
    if sink.end.wants_write() {
        sink.end.write(&[]).map_err(|_| Broken::Sink)?;
    }
    loop {
        let mut moved = 0;
        while !flow.waiting().is_empty() {
            let taken = sink.end.write(flow.waiting()).map_err(|_| Broken::Sink)?;
            if taken == 0 {
                break;
            }
            flow.delivered(taken);
            moved += taken;
        }
        let free = flow.free().min(buffer.len());
        if free > 0 && (total < PER_TURN || source.end.holds_data()) {
            match source
                .end
                .read(&mut buffer[..free])
                .map_err(Broken::Source)?
            {
                Read::Bytes(count) => {
                    flow.take(&buffer[..count]);
                    moved += count;
                    total += count;
                }
                Read::Nothing => {}
                Read::End => flow.end(),
            }
        }
        if moved == 0 {
            break;
        }
    }
    if flow.is_done() && !flow.is_refused() && !sink.is_finished {
        sink.is_finished = sink.end.finish().map_err(|_| Broken::Sink)?;
    }
    Ok(())
}
