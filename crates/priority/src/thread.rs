//! Raising and restoring the priority of a thread.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};
use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority,
    ThreadPriorityValue, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    thread_schedule_policy_param,
};

use crate::Priority;

/// The kernel refused the priority. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoostError {
    /// The scheduling policy could not be changed.
    #[error("sched_setscheduler({policy}, {priority}) failed (errno: {errno}, {})", reason(*errno))]
    Policy {
        /// The number of the policy.
        policy: i32,
        /// The real-time priority.
        priority: u8,
        /// The error, usually because `CAP_SYS_NICE` is missing.
        errno: i32,
    },
    /// The nice value could not be changed.
    #[error("setpriority({nice}) failed (errno: {errno}, {})", reason(*errno))]
    Nice {
        /// The requested nice value.
        nice: i32,
        /// The error, usually because `CAP_SYS_NICE` is missing.
        errno: i32,
    },
}

fn reason(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheduling {
    policy: ThreadSchedulePolicy,
    /// The real-time priority; 0 for other policies.
    realtime: u8,
    nice: i32,
}

const OTHER: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
const FIFO: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);

/// A temporary priority of a thread. All calls must come from that thread. An unused boost costs
/// nothing. Other existing threads of the process are not affected.
#[derive(Debug, Default)]
pub struct ThreadBoost {
    /// The original scheduling of the thread, while it is changed.
    own: Option<Scheduling>,
    given: Option<Scheduling>,
}

impl ThreadBoost {
    /// Creates a boost that has not changed anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority of the calling thread, or restores its own with `None`. A thread whose own
    /// priority is higher keeps it.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses; the thread then keeps its previous scheduling.
    pub fn set(&mut self, priority: Option<Priority>) -> Result<(), BoostError> {
        if priority.is_none() && self.given.is_none() {
            return Ok(());
        }
        let own = match (self.own, self.given) {
            (Some(own), Some(_)) => own,
            _ => *self.own.insert(Scheduling::current()),
        };
        let wanted = priority
            .filter(|wanted| own.priority().is_none_or(|own| own < *wanted))
            .map(Scheduling::from);
        let before = self.given.unwrap_or(own);
        if let Err(error) = wanted.unwrap_or(own).apply() {
            // One of the two settings may have been changed.
            let _ = before.apply();
            return Err(error);
        }
        self.given = wanted;
        Ok(())
    }
}

impl From<Priority> for Scheduling {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Normal(above) => Self {
                policy: OTHER,
                realtime: 0,
                nice: -i32::from(above),
            },
            Priority::Realtime(realtime) => Self {
                policy: FIFO,
                realtime,
                nice: 0,
            },
        }
    }
}

impl Scheduling {
    /// Returns the scheduling of the calling thread. Values that cannot be read are assumed to be
    /// the defaults.
    fn current() -> Self {
        let (policy, realtime) = match thread_schedule_policy_param(thread_native_id()) {
            Ok((policy, parameters)) => (policy, parameters.sched_priority),
            Err(_) => (OTHER, 0),
        };
        Self {
            policy,
            realtime: u8::try_from(realtime).unwrap_or(0),
            nice: getpriority_process(None).unwrap_or(0),
        }
    }

    /// Converts to a priority, if the policy is comparable.
    fn priority(self) -> Option<Priority> {
        match self.policy {
            ThreadSchedulePolicy::Realtime(_) => Some(Priority::Realtime(self.realtime)),
            OTHER => u8::try_from(-self.nice).ok().map(Priority::Normal),
            ThreadSchedulePolicy::Normal(_) => None,
        }
    }

    fn apply(self) -> Result<(), BoostError> {
        let is_realtime = matches!(self.policy, ThreadSchedulePolicy::Realtime(_));
        if is_realtime || Self::current().policy != self.policy {
            self.apply_policy()?;
        }
        if is_realtime {
            return Ok(());
        }
        setpriority_process(None, self.nice).map_err(|error| BoostError::Nice {
            nice: self.nice,
            errno: error.raw_os_error(),
        })
    }

    fn apply_policy(self) -> Result<(), BoostError> {
        let number = match self.policy {
            ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo) => 1,
            ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin) => 2,
            ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch) => 3,
            ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle) => 5,
            ThreadSchedulePolicy::Realtime(_) => 6,
            ThreadSchedulePolicy::Normal(_) => 0,
        };
        // For other policies, the value stands for a nice value, which is set right afterwards.
        let value = ThreadPriorityValue::try_from(self.realtime).unwrap_or_default();
        let priority = ThreadPriority::Crossplatform(value);
        set_thread_priority_and_policy(thread_native_id(), priority, self.policy).map_err(|error| {
            BoostError::Policy {
                policy: number,
                priority: self.realtime,
                errno: match error {
                    Error::OS(errno) => errno,
                    _ => rustix::io::Errno::INVAL.raw_os_error(),
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `test` on a separate thread, whose priority does not matter afterwards.
    fn on_a_thread(test: impl FnOnce(ThreadBoost) + Send + 'static) {
        let thread = std::thread::spawn(|| test(ThreadBoost::new()));
        thread.join().unwrap();
    }

    /// Returns true if the kernel permits this process to raise priorities.
    fn may_boost() -> bool {
        let tried = std::thread::spawn(|| {
            let mut boost = ThreadBoost::new();
            boost.set(Some(Priority::Normal(1))).is_ok()
                && boost.set(Some(Priority::Realtime(1))).is_ok()
        });
        let may = tried.join().unwrap();
        if !may {
            println!("skipped: priorities may not be raised here");
        }
        may
    }

    #[test]
    fn the_threads_own_priority_is_restored() {
        if !may_boost() {
            return;
        }
        on_a_thread(|mut boost| {
            let own = Scheduling::current();
            for priority in [
                Priority::Normal(5),
                Priority::Realtime(7),
                Priority::Realtime(3),
                Priority::Normal(20),
            ] {
                boost.set(Some(priority)).unwrap();
                let got = Scheduling::current();
                assert_eq!(got.policy, Scheduling::from(priority).policy);
                assert_eq!(got.priority(), Some(priority));
            }
            boost.set(None).unwrap();
            assert_eq!(Scheduling::current(), own);
            boost.set(Some(Priority::Realtime(2))).unwrap();
            boost.set(None).unwrap();
            assert_eq!(Scheduling::current(), own);
        });
    }

    #[test]
    fn other_threads_are_not_affected() {
        if !may_boost() {
            return;
        }
        let before = Scheduling::current();
        on_a_thread(move |mut boost| {
            boost.set(Some(Priority::Normal(5))).unwrap();
            let other = std::thread::spawn(Scheduling::current);
            // A new thread inherits the priority; existing ones do not.
            assert_eq!(other.join().unwrap().nice, -5);
        });
        assert_eq!(Scheduling::current(), before);
    }

    #[test]
    fn a_threads_own_priority_is_the_minimum() {
        if !may_boost() {
            return;
        }
        on_a_thread(|_| {
            setpriority_process(None, -10).unwrap();
            let mut boost = ThreadBoost::new();
            boost.set(Some(Priority::Normal(3))).unwrap();
            assert_eq!(Scheduling::current().nice, -10);
            boost.set(Some(Priority::Normal(12))).unwrap();
            assert_eq!(Scheduling::current().nice, -12);
            boost.set(None).unwrap();
            assert_eq!(Scheduling::current().nice, -10);
        });
    }

    #[test]
    fn errors_have_upstreams_texts() {
        let error = BoostError::Policy {
            policy: 1,
            priority: 10,
            errno: 1,
        };
        assert_eq!(
            error.to_string(),
            "sched_setscheduler(1, 10) failed (errno: 1, Operation not permitted)"
        );
        let error = BoostError::Nice {
            nice: -5,
            errno: 13,
        };
        assert_eq!(
            error.to_string(),
            "setpriority(-5) failed (errno: 13, Permission denied)"
        );
    }
}
