//! The priority sessions want the service to run at: the highest counts, until its session is freed.

#[cfg(feature = "priority")]
pub(crate) use ferretto_priority::InvalidPriority;
#[cfg(feature = "priority")]
pub use ferretto_priority::Priority;
#[cfg(not(feature = "priority"))]
pub(crate) use none::InvalidPriority;
#[cfg(not(feature = "priority"))]
pub use none::Priority;

use crate::command::Command;
use crate::event::ClientId;
use crate::service::Service;

impl Service {
    /// Whether it takes more than the service has already to satisfy this.
    pub(crate) fn must_boost(&self, wanted: Option<Priority>) -> bool {
        wanted > self.priority
    }

    /// Asks the driver for a priority on behalf of a consumer, who waits for its answer.
    pub(crate) fn boost_for(&mut self, client: ClientId, priority: Priority) {
        self.priority = Some(priority);
        self.commands.push_back(Command::SetPriority {
            priority: Some(priority),
            client: Some(client),
        });
    }

    /// Something that wanted a priority may be gone.
    pub(crate) fn settle_priority(&mut self) {
        if self.priority.is_none() {
            return;
        }
        let sessions = self.sessions.values().map(|session| session.priority);
        let opening = self.consumers.values().filter_map(|c| c.opening.as_ref());
        let opening = opening.map(|opening| opening.priority);
        let wanted = sessions.chain(opening).max().flatten();
        if wanted != self.priority {
            self.priority = wanted;
            self.commands.push_back(Command::SetPriority {
                priority: wanted,
                client: None,
            });
        }
    }
}

/// What is in place of priorities in a service built without them.
#[cfg(not(feature = "priority"))]
mod none {
    use ferretto_proto::PriorityBoostConfig;

    /// A priority of the service's thread; there is none without the feature `priority`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Priority {}

    /// This service was built without the feature `priority`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct InvalidPriority;

    ferretto_wire::error_text! {
        InvalidPriority {
            Self => "this service was built without it (feature \"priority\" of ferretto-service)",
        }
    }

    impl Priority {
        /// What a config asks for, which is more than there is.
        pub(crate) fn from_config(_: &PriorityBoostConfig) -> Result<Self, InvalidPriority> {
            Err(InvalidPriority)
        }
    }
}
