//! Losses that nobody would hear of.
//!
//! A writer that finds no chunk marks that in its last one, or says it in its next packet. If there
//! is no room in the one and never comes the other, the loss is kept here until it can be told by a
//! writer made for that.

use std::sync::Arc;

use crate::arbiter::Arbiter;
use crate::policy::ExhaustedPolicy;
use crate::startup::Target;

impl Arbiter {
    /// Says in every buffer concerned that packets were lost, if nobody has done so yet. Returns
    /// whether all is said: not if there is no chunk for it at present.
    pub fn report_losses(self: &Arc<Self>) -> bool {
        let mut reported = Vec::new();
        let mut is_all = true;
        for (writer, target) in self.untold().take() {
            let buffer = match target {
                Target::Buffer(buffer) => Some(buffer),
                Target::Reserved(reservation) => self.reserved_buffer(reservation),
            };
            let is_reported = buffer.is_some_and(|buffer| {
                buffer == 0 || reported.contains(&buffer) || self.report_loss(buffer)
            });
            if is_reported {
                reported.extend(buffer);
            } else {
                self.untold().add(writer, target);
                is_all = false;
            }
        }
        is_all
    }

    fn report_loss(self: &Arc<Self>, buffer: u16) -> bool {
        let mut writer = self.create_writer(buffer, ExhaustedPolicy::Drop);
        // Without another writer there is nobody to say it.
        writer.id() == 0 || writer.sink.report_loss()
    }
}
