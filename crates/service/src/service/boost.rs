//! The priority the service runs at: the highest that a session wants, until that is freed.

use crate::command::{Command, Commands};
use crate::event::ClientId;
use crate::priority::Priority;

/// The priority that the driver was asked for.
#[derive(Debug, Default)]
pub(crate) struct PriorityBoost(Option<Priority>);

impl PriorityBoost {
    /// Returns true if it takes more than the service has already to satisfy this.
    pub(crate) fn must_raise(&self, wanted: Option<Priority>) -> bool {
        wanted > self.0
    }

    /// Asks the driver for a priority on behalf of a consumer, who waits for its answer.
    pub(crate) fn raise_for(
        &mut self,
        commands: &mut Commands,
        client: ClientId,
        priority: Priority,
    ) {
        self.0 = Some(priority);
        commands.push(Command::SetPriority {
            priority: Some(priority),
            client: Some(client),
        });
    }

    /// Returns false if there is none, so that nothing can be given up.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_some()
    }

    /// Withdraws priorities that nobody wants any more.
    pub(crate) fn lower_to(&mut self, commands: &mut Commands, wanted: Option<Priority>) {
        if wanted != self.0 {
            self.0 = wanted;
            commands.push(Command::SetPriority {
                priority: wanted,
                client: None,
            });
        }
    }
}
