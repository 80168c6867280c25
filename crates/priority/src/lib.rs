//! Raises the priority of a thread while recordings request it.
//!
//! A config requests this with `priority_boost`: for the service, and for the program of a data
//! source.
//!
//! # Main types
//!
//! [`Priority`] is a valid request; of several requests, the highest takes effect. [`ThreadBoost`]
//! applies it to a thread and restores the thread's own.
#![forbid(unsafe_code)]

mod thread;

pub use thread::{BoostError, ThreadBoost};

use ferretto_proto::PriorityBoostConfig;
use ferretto_proto::priority_boost_config::BoostPolicy;

/// The priority of a thread. Real-time priorities are above all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// `SCHED_OTHER` with the negative of this nice value: 0 to 20.
    Normal(u8),
    /// `SCHED_FIFO` with this priority: 1 to 99.
    Realtime(u8),
}

/// The reason why a `PriorityBoostConfig` is invalid. The texts are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPriority {
    /// The value is outside the range of nice values.
    #[error("For the 'POLICY_SCHED_OTHER' priority must be in the range [0; 20]")]
    Normal,
    /// The value is outside the range of real-time priorities.
    #[error("For the 'POLICY_SCHED_FIFO' priority must be in the range [1; 99]")]
    Realtime,
    /// The policy is missing or unknown.
    #[error("Policy must not be 'POLICY_UNSPECIFIED'")]
    NoPolicy,
}

impl Priority {
    /// Returns the priority that a config asks for.
    ///
    /// # Errors
    ///
    /// See [`InvalidPriority`].
    pub fn from_config(config: &PriorityBoostConfig) -> Result<Self, InvalidPriority> {
        let priority = config.priority.unwrap_or(0);
        match config.policy.unwrap_or(BoostPolicy::POLICY_UNSPECIFIED) {
            BoostPolicy::POLICY_SCHED_OTHER => match u8::try_from(priority) {
                Ok(priority @ 0..=20) => Ok(Self::Normal(priority)),
                _ => Err(InvalidPriority::Normal),
            },
            BoostPolicy::POLICY_SCHED_FIFO => match u8::try_from(priority) {
                Ok(priority @ 1..=99) => Ok(Self::Realtime(priority)),
                _ => Err(InvalidPriority::Realtime),
            },
            BoostPolicy::POLICY_UNSPECIFIED => Err(InvalidPriority::NoPolicy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_is_ahead_of_nice() {
        assert!(Priority::Realtime(1) > Priority::Normal(20));
        assert!(Priority::Realtime(99) > Priority::Realtime(98));
        assert!(Priority::Normal(1) > Priority::Normal(0));
    }

    #[test]
    fn config_021_ranges_of_priorities() {
        let of = |policy, priority| {
            Priority::from_config(&PriorityBoostConfig {
                policy: Some(policy),
                priority: Some(priority),
                ..Default::default()
            })
        };
        let other = |priority| of(BoostPolicy::POLICY_SCHED_OTHER, priority);
        let fifo = |priority| of(BoostPolicy::POLICY_SCHED_FIFO, priority);
        assert_eq!(other(0), Ok(Priority::Normal(0)));
        assert_eq!(other(20), Ok(Priority::Normal(20)));
        for priority in [21, 256, u32::MAX] {
            assert_eq!(other(priority), Err(InvalidPriority::Normal));
        }
        assert_eq!(fifo(1), Ok(Priority::Realtime(1)));
        assert_eq!(fifo(99), Ok(Priority::Realtime(99)));
        for priority in [0, 100, 257] {
            assert_eq!(fifo(priority), Err(InvalidPriority::Realtime));
        }
        assert_eq!(
            Priority::from_config(&PriorityBoostConfig::default()),
            Err(InvalidPriority::NoPolicy)
        );
    }
}
