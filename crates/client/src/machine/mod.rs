//! The connection by which a machine tells a host of another machine about itself, and has its
//! clocks compared with those there.
//!
//! Relays have one for their machine, and so has each producer that reaches its service over a
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

/// The first pause before a lost connection is tried again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One connection to the port for relays of a host.
///
/// Nothing here waits: its owner calls [`process`](Self::process) when the descriptor ([`AsFd`])
/// can be read, or while [`wants_write`](Self::wants_write) be written, or the
/// [`deadline`](Self::deadline) has come.
#[derive(Debug)]
pub struct MachineLink {
    connection: Connection<Port>,
    rounds: Rounds,
    info: SystemInfo,
    deadline: Option<Instant>,
    is_established: bool,
}

/// Why there is no connection any more.
#[derive(Debug)]
pub enum MachineLost {
    /// It ended.
    Disconnected(DisconnectReason),
    /// The host does not answer.
    Silent,
}

impl fmt::Display for MachineLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected(reason) => reason.fmt(f),
            Self::Silent => f.write_str("the tracing service does not answer"),
        }
    }
}

impl std::error::Error for MachineLost {}

impl MachineLink {
    /// Begins to speak over a connected socket. The identity is said first, unless it was already.
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

    /// Does all work that needs no waiting.
    ///
    /// # Errors
    ///
    /// When the connection is over.
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
            // One that could not be made has ended the connection, which is told above.
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

    /// Returns when to [process](Self::process) next if nothing happens before.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns true if there is something to be sent that the socket has not taken.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Returns true once the host has answered.
    pub fn is_established(&self) -> bool {
        self.is_established
    }
}

impl AsFd for MachineLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// Reads the clocks of this machine, in upstream's order: the number and the time of each.
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
    if let Some(counter) = ferretto_shm::counter() {
        clocks.push((clock::TSC, counter));
    }
    clocks
}

/// The pauses between attempts to connect: one second, and twice as long each time up to thirty.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: u32,
    next: Option<Instant>,
}

impl Attempts {
    /// An attempt failed, or a connection ended; it had been answered on if `was_established`.
    pub fn failed(&mut self, now: Instant, was_established: bool) {
        self.failures = if was_established { 0 } else { self.failures };
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(5));
        self.failures += 1;
        self.next = Some(now + pause.min(LONGEST_PAUSE));
    }

    /// There is a reason to try now.
    pub fn hurry(&mut self) {
        self.next = None;
    }

    /// Returns when the next attempt is due; `None` if it is now.
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
    fn pauses_double_up_to_half_a_minute_and_begin_anew_after_a_success() {
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
