//! Memory and CPU time: the shares of users, and the limits of the process.

use ferretto_service::driver::clocks;

use super::{PER_CLIENT, Reactor};
use crate::heartbeat::Heartbeat;
use crate::notice::Notice;
use crate::schedule::Excess;
use crate::watchdog::{Explained, Watchdog, WatchdogError, WatchdogLimits};

/// The smallest amount of memory worth returning to the system, in bytes.
const WORTH_RELEASING: u64 = 4 << 20;

impl Reactor {
    /// Reports a user who is throttled, and disconnects the client with the most work.
    pub(super) fn restrain(&mut self, excess: Excess) {
        let Some(allowance) = &self.limits.cpu_per_user else {
            return;
        };
        match excess {
            Excess::Begins { origin } => {
                let percent = allowance.percent;
                self.notices.report(&Notice::Throttled { origin, percent });
            }
            Excess::Lasts { origin, epoch } => {
                let seconds = allowance.patience / 1_000_000_000;
                let of_origin = self.clients.values().filter(|c| c.origin == origin);
                let worst = of_origin
                    .filter(|client| client.turn.excess(epoch) > 0)
                    .max_by_key(|client| client.turn.excess(epoch));
                if let Some(worst) = worst {
                    let (id, client) = (worst.id, worst.name());
                    self.notices.report(&Notice::TooMuchWork {
                        client,
                        origin,
                        seconds,
                    });
                    self.cut_off(id);
                    self.carry_out(&clocks::read());
                    self.count(Some(origin));
                }
            }
        }
    }

    /// Ends the host when the process exceeds these limits.
    pub(crate) fn watch(&mut self, limits: WatchdogLimits) {
        let seconds = limits.turn / 1_000_000_000;
        let notices = self.notices.clone();
        self.heartbeat = Heartbeat::new(limits.turn, move || {
            notices.report(&Notice::Hangs { seconds });
            std::process::abort();
        });
        self.watchdog = Some(Watchdog::new(limits));
    }

    /// Checks periodically that the process stays within its limits. `now` is `CLOCK_MONOTONIC`.
    pub(crate) fn check_usage(&mut self, now: u64) -> Result<(), WatchdogError> {
        if !self.watchdog.as_ref().is_some_and(|dog| dog.is_due(now)) {
            return Ok(());
        }
        self.deduct();
        self.give_memory_back();
        let held: usize = self.clients.values().map(|c| c.accounted).sum();
        let explained = Explained {
            private: self.service.memory_needed()
                + self.files.memory_needed()
                + held as u64
                + self.clients.len() as u64 * PER_CLIENT,
            shared: self.service.memory_shared(),
            clients_cpu: self.deducted_cpu.saturating_sub(self.own_cpu),
        };
        match &mut self.watchdog {
            Some(watchdog) => watchdog.check(now, &explained),
            None => Ok(()),
        }
    }

    /// Returns freed memory to the system.
    pub(super) fn give_memory_back(&mut self) {
        self.give_back = None;
        if ferretto_malloc::heap().is_some_and(|heap| heap.free >= WORTH_RELEASING) {
            ferretto_malloc::release();
        }
    }
}
