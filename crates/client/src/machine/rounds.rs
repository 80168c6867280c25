//! The exchange between a machine and its host: the machine describes itself, and then synchronizes
//! clocks until the connection ends.

use std::time::{Duration, Instant};

use ferretto_ipc::port::relay::Method;
use ferretto_proto::sync_clock_request::Phase;

/// The default exchanges of a comparison and the pause after it, as in upstream's relays.
/// Upstream's readers average exchanges that are closer together.
const PLAIN: Pace = Pace {
    exchanges: 2,
    pause: Duration::from_secs(30),
};
/// The exchanges of a comparison with a host that uses the best of them.
const EXCHANGES: u32 = 8;
/// The shortest pause that a host may request.
const SHORTEST: Duration = Duration::from_millis(100);
/// The timeout of the host's replies.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    exchanges: u32,
    pause: Duration,
}

/// The next request, or a time to wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// The description of the machine.
    Describe,
    /// The current clocks.
    Compare(Phase),
    /// Nothing before this time; `None` if the host must reply first, or lacks the method.
    Wait(Option<Instant>),
    /// The host has not replied in time.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Waits for the host's reply.
    Binding,
    Describing,
    Comparing {
        /// The exchanges of this comparison so far.
        exchanges: u32,
    },
    Resting {
        until: Instant,
    },
    /// The host does not synchronize clocks.
    Idle,
}

/// The state of the exchange.
#[derive(Debug)]
pub(super) struct Rounds {
    state: State,
    pace: Pace,
    can_compare: bool,
    /// The time of a request that has no reply yet.
    pending_since: Option<Instant>,
}

impl Rounds {
    /// Starts an exchange at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::Binding,
            pace: PLAIN,
            can_compare: false,
            pending_since: Some(now),
        }
    }

    /// Handles a host with the port, which has the methods for which `has` returns true.
    pub(super) fn bound(&mut self, has: impl Fn(Method) -> bool) {
        self.pending_since = None;
        self.can_compare = has(Method::SyncClock);
        self.state = if has(Method::InitRelay) {
            State::Describing
        } else {
            self.comparing()
        };
    }

    /// Handles a host without the port. The connection is kept to notice the end of the host.
    pub(super) fn refused(&mut self) {
        self.pending_since = None;
        self.state = State::Idle;
    }

    /// Handles a reply of the host. `interval` is the pause it requests.
    pub(super) fn answered(&mut self, now: Instant, interval: Option<Duration>) {
        self.pending_since = None;
        match self.state {
            State::Describing => {
                if let Some(interval) = interval {
                    self.pace = Pace {
                        exchanges: EXCHANGES,
                        pause: interval.clamp(SHORTEST, PLAIN.pause),
                    };
                }
                self.state = self.comparing();
            }
            State::Comparing { exchanges } => {
                let exchanges = exchanges + 1;
                self.state = if exchanges < self.pace.exchanges {
                    State::Comparing { exchanges }
                } else {
                    let until = now + self.pace.pause;
                    State::Resting { until }
                };
            }
            State::Binding | State::Resting { .. } | State::Idle => {}
        }
    }

    fn comparing(&self) -> State {
        if self.can_compare {
            State::Comparing { exchanges: 0 }
        } else {
            State::Idle
        }
    }

    /// Returns the next step. A returned request counts as sent.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        if let Some(since) = self.pending_since {
            let end = since + PATIENCE;
            return if now < end {
                Next::Wait(Some(end))
            } else {
                Next::GiveUp
            };
        }
        if let State::Resting { until } = self.state {
            if now < until {
                return Next::Wait(Some(until));
            }
            self.state = self.comparing();
        }
        let next = match self.state {
            State::Describing => Next::Describe,
            State::Comparing { exchanges } if exchanges % 2 == 0 => Next::Compare(Phase::PING),
            State::Comparing { .. } => Next::Compare(Phase::UPDATE),
            State::Binding | State::Resting { .. } | State::Idle => return Next::Wait(None),
        };
        self.pending_since = Some(now);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn all(_: Method) -> bool {
        true
    }

    #[test]
    fn relay_011_ping_is_followed_by_update_and_a_pause_of_thirty_seconds() {
        let begin = Instant::now();
        let mut rounds = Rounds::new(begin);
        rounds.bound(all);
        assert_eq!(rounds.next(begin), Next::Describe);
        rounds.answered(begin, None);
        let mut now = begin;
        for _ in 0..3 {
            assert_eq!(rounds.next(now), Next::Compare(Phase::PING));
            // Not before the reply.
            assert_eq!(rounds.next(now), Next::Wait(Some(now + PATIENCE)));
            now += SECOND;
            rounds.answered(now, None);
            assert_eq!(rounds.next(now), Next::Compare(Phase::UPDATE));
            rounds.answered(now, None);
            let due = now + 30 * SECOND;
            assert_eq!(rounds.next(now), Next::Wait(Some(due)));
            assert_eq!(
                rounds.next(due - Duration::from_nanos(1)),
                Next::Wait(Some(due))
            );
            now = due;
        }
    }

    #[test]
    fn a_host_can_request_more_frequent_comparisons() {
        let now = Instant::now();
        let mut rounds = Rounds::new(now);
        rounds.bound(all);
        assert_eq!(rounds.next(now), Next::Describe);
        rounds.answered(now, Some(5 * SECOND));
        for _ in 0..EXCHANGES / 2 {
            assert_eq!(rounds.next(now), Next::Compare(Phase::PING));
            rounds.answered(now, None);
            assert_eq!(rounds.next(now), Next::Compare(Phase::UPDATE));
            rounds.answered(now, None);
        }
        assert_eq!(rounds.next(now), Next::Wait(Some(now + 5 * SECOND)));
        // Not without any pause.
        let mut hurried = Rounds::new(now);
        hurried.bound(all);
        hurried.next(now);
        hurried.answered(now, Some(Duration::ZERO));
        assert_eq!(hurried.pace.pause, SHORTEST);
    }

    #[test]
    fn ipc_071_hosts_without_the_newer_methods_are_tolerated() {
        let now = Instant::now();
        let mut older = Rounds::new(now);
        older.bound(|method| method == Method::SyncClock);
        assert_eq!(older.next(now), Next::Compare(Phase::PING));
        let mut oldest = Rounds::new(now);
        oldest.bound(|_| false);
        assert_eq!(oldest.next(now), Next::Wait(None));
        let mut without_port = Rounds::new(now);
        without_port.refused();
        assert_eq!(without_port.next(now + 3600 * SECOND), Next::Wait(None));
    }

    #[test]
    fn a_host_that_does_not_reply_is_abandoned() {
        let now = Instant::now();
        let mut rounds = Rounds::new(now);
        assert_eq!(rounds.next(now), Next::Wait(Some(now + PATIENCE)));
        assert_eq!(rounds.next(now + PATIENCE), Next::GiveUp);
        let mut asked = Rounds::new(now);
        asked.bound(all);
        assert_eq!(asked.next(now), Next::Describe);
        assert_eq!(asked.next(now + PATIENCE), Next::GiveUp);
    }
}
