//! The connection over which a machine describes itself to the host on another machine, and
//! synchronizes its clocks.
//!
//! Relays have one for their machine, and so does each producer that reaches its service over a
//! network without a relay.

mod rounds;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ferretto_ipc::client::{Connection, DisconnectReason, Event};
use ferretto_ipc::frame::Identity;
use ferretto_ipc::port::relay::{self, Port, Reply, Request};
use ferretto_ipc::socket::Socket;
use ferretto_proto::sync_clock_request::{Clock, Phase};
use ferretto_proto::{InitRelayRequest, SyncClockRequest, SystemInfo};

use self::rounds::{Next, Rounds};

/// The first and the longest pause before reconnecting.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection to the relay port of a host.
///
/// No method blocks. The owner calls [`process`](Self::process) when the descriptor ([`AsFd`]) is
/// readable, when it is writable while [`wants_write`](Self::wants_write), or at the
/// [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct MachineLink {
    connection: Connection<Port>,
    rounds: Rounds,
    info: SystemInfo,
    deadline: Option<Instant>,
    is_established: bool,
}

/// The reason why a connection is lost.
#[derive(Debug)]
pub enum MachineLost {
    /// The connection ended.
    Disconnected(DisconnectReason),
    /// The host does not reply.
    Silent,
}

impl fmt::Display for MachineLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(reason) => reason.fmt(f),
            Self::Silent => f.write_str("the tracing service does not reply"),
        }
    }
}

impl std::error::Error for MachineLost {}

impl MachineLink {
    /// Starts the exchange over a connected socket. Sends the identity first, unless it was sent
    /// already.
    pub fn new(
        socket: Socket,
        identity: Option<&Identity<'_>>,
        info: SystemInfo,
        now: Instant,
    ) -> Self {
        let connection = match identity {
            Some(identity) => Connection::with_identity(socket, identity),
            None => Connection::new(socket),
        };
        Self {
            connection,
            rounds: Rounds::new(now),
            info,
            deadline: None,
            is_established: false,
        }
    }

    /// Processes the connection without blocking.
    ///
    /// # Errors
    ///
    /// Fails when the connection has ended.
    pub fn process(&mut self, now: Instant) -> Result<(), MachineLost> {
        self.connection.process();
        loop {
            while let Some(event) = self.connection.poll_event() {
                self.take(event)?;
            }
            let request = match self.rounds.next(now) {
                Next::Wait(deadline) => {
                    self.deadline = deadline;
                    return Ok(());
                }
                Next::GiveUp => return Err(MachineLost::Silent),
                Next::Describe => {
                    let mut request = InitRelayRequest {
                        system_info: self.info.clone().into(),
                        ..Default::default()
                    };
                    relay::offer_comparisons(&mut request);
                    Request::InitRelay(request)
                }
                Next::Compare(phase) => self.compare(phase),
            };
            // A request that cannot be sent ends the connection, which is reported above.
            let made = self.connection.invoke(&request, None, true);
            if made.is_err() && !self.connection.has_event() {
                return Err(MachineLost::Silent);
            }
        }
    }

    fn take(&mut self, event: Event<Port>) -> Result<(), MachineLost> {
        match event {
            Event::Bound => {
                let connection = &self.connection;
                self.rounds.bound(|method| connection.supports(method));
                self.is_established = true;
            }
            Event::BindFailed => {
                self.rounds.refused();
                self.is_established = true;
            }
            Event::Reply(reply) => {
                let interval = match &reply.result {
                    Ok(Reply::InitRelay(reply)) => relay::wanted_interval(reply),
                    _ => None,
                };
                let interval = interval.map(Duration::from_millis);
                self.rounds.answered(Instant::now(), interval);
            }
            Event::Disconnected(reason) => return Err(MachineLost::Disconnected(reason)),
        }
        Ok(())
    }

    fn compare(&self, phase: Phase) -> Request {
        let clocks = read_clocks().into_iter().map(|(id, time)| Clock {
            clock_id: Some(id),
            timestamp: Some(time),
            ..Default::default()
        });
        Request::SyncClock(SyncClockRequest {
            phase: Some(phase),
            clocks: clocks.collect(),
            ..Default::default()
        })
    }

    /// Returns the time of the next [`process`](Self::process) if no event comes first.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns true if the socket has not taken all bytes to send.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Returns true once the host has replied.
    pub fn is_established(&self) -> bool {
        self.is_established
    }
}

impl AsFd for MachineLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// Reads the clocks of this machine in upstream's order: the id and the time of each.
pub fn read_clocks() -> Vec<(u32, u64)> {
    use ferretto_format::clock;
    use ferretto_shm::Clock as Of;

    let mut clocks = vec![
        (clock::BOOTTIME, Of::Boottime.now()),
        (clock::REALTIME_COARSE, Of::RealtimeCoarse.now()),
        (clock::MONOTONIC_COARSE, Of::MonotonicCoarse.now()),
        (clock::REALTIME, Of::Realtime.now()),
        (clock::MONOTONIC, Of::Monotonic.now()),
        (clock::MONOTONIC_RAW, Of::MonotonicRaw.now()),
    ];
    if let Some(counter) = ferretto_shm::time_stamp_counter() {
        clocks.push((clock::TSC, counter));
    }
    clocks
}

/// The pauses between attempts to connect: from one second, doubled each time, up to thirty.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: u32,
    next: Option<Instant>,
}

impl Attempts {
    /// Handles a failed attempt, or the end of a connection, which the host had accepted if
    /// `was_established`.
    pub fn failed(&mut self, now: Instant, was_established: bool) {
        self.failures = if was_established { 0 } else { self.failures };
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(5));
        self.failures += 1;
        self.next = Some(now + pause.min(LONGEST_PAUSE));
    }

    /// Makes the next attempt due now.
    pub fn hurry(&mut self) {
        self.next = None;
    }

    /// Returns the time of the next attempt; `None` if it is due now.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns true if an attempt is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute_and_restart_after_a_success() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        assert!(attempts.is_due(now));
        let pause = |attempts: &mut Attempts, established| {
            attempts.failed(now, established);
            (attempts.next().unwrap() - now).as_secs()
        };
        let grown: Vec<u64> = (0..7).map(|_| pause(&mut attempts, false)).collect();
        assert_eq!(grown, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(&mut attempts, true), 1);
        assert_eq!(pause(&mut attempts, false), 2);
        attempts.hurry();
        assert!(attempts.is_due(now));
    }
}
