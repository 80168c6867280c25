//! The priority of the service: the highest that a session requests, until that session is freed.

use crate::command::{Command, Commands};
use crate::event::ClientId;
use crate::priority::Priority;

/// The priority requested from the driver.
#[derive(Debug, Default)]
pub(crate) struct PriorityBoost(Option<Priority>);

impl PriorityBoost {
    /// Returns true if a requested priority is higher than the current one.
    pub(crate) fn must_raise(&self, wanted: Option<Priority>) -> bool {
        wanted > self.0
    }

    /// Requests a priority from the driver for a consumer, which waits for the answer.
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

    /// Returns true if there is a priority to give up.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_some()
    }

    /// Lowers the priority to one that is still requested.
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
