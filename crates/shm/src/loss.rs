//! Losses that would otherwise go unreported.
//!
//! A writer that finds no chunk marks that in its last chunk, or reports it in its next packet. If
//! the chunk has no space and no packet follows, the loss is kept here until another writer can
//! report it.

use std::sync::Arc;

use crate::arbiter::Arbiter;
use crate::policy::ExhaustedPolicy;
use crate::startup::Target;

impl Arbiter {
    /// Reports losses in every affected buffer that were not reported yet. Returns false if some
    /// remain for lack of a chunk.
    pub fn report_losses(self: &Arc<Self>) -> bool {
        let mut reported = Vec::new();
        let mut is_all = true;
        for (writer, target) in self.unreported().take() {
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
                self.unreported().add(writer, target);
                is_all = false;
            }
        }
        is_all
    }

    fn report_loss(self: &Arc<Self>, buffer: u16) -> bool {
        let mut writer = self.create_writer(buffer, ExhaustedPolicy::Drop);
        // Without an id there is no writer that could report the loss.
        writer.id() == 0 || writer.sink.report_loss()
    }
}
