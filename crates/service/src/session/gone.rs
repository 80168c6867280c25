//! Data sources that left without a flush, with their unread data.

use std::sync::Arc;

use super::events::{EventKind, EventLog, encode_sources};
use super::instance::{Instance, InstanceState};
use super::{Session, SessionState};
use crate::ids::ProducerId;
use crate::limits::MAX_SLOW_LISTED;

/// The prefix of data sources that record the machine and not the program that they are in. If one
/// leaves, data that it had not yet read, as from the kernel's buffers, is lost. A program that
/// ends loses nothing: its packets are in its shared memory, which is copied then.
const OF_THE_MACHINE: &[u8] = b"linux.";

/// Data sources of a session whose producer left without having been asked to stop: the names of
/// producer and data source.
#[derive(Debug, Clone, Default)]
pub(super) struct Gone(Vec<(Arc<[u8]>, Vec<u8>)>);

impl Gone {
    fn note(&mut self, instance: &Instance) {
        let name = instance.name();
        let is_known = |(producer, source): &(Arc<[u8]>, Vec<u8>)| {
            *producer == *instance.producer_name() && source == name
        };
        if self.0.len() < MAX_SLOW_LISTED && !self.0.iter().any(is_known) {
            self.0
                .push((Arc::clone(instance.producer_name()), name.to_vec()));
        }
    }

    /// Tells of them as of others that did not answer the last flush. They could not have.
    pub(super) fn record(&self, events: &mut EventLog, boottime: u64) {
        if !self.0.is_empty() {
            let names = self.0.iter();
            let details =
                encode_sources(names.map(|(producer, source)| (producer.as_ref(), &source[..])));
            events.record_details(boottime, EventKind::LastFlushSlowDataSources, details);
        }
    }
}

impl Session {
    /// Notes the data sources that the departed producer still recorded.
    pub(crate) fn note_gone(&mut self, producer: ProducerId) {
        if !matches!(self.state, SessionState::Started | SessionState::Stopping) {
            return;
        }
        for (_, instance) in self.instances.of_producer(producer) {
            let records = matches!(
                instance.state(),
                InstanceState::Started | InstanceState::Stopping
            );
            if records && instance.name().starts_with(OF_THE_MACHINE) {
                self.gone.note(instance);
            }
        }
    }
}
