//! Data sources that left without a flush, and so lost their unread data, or that cannot
//! deliver data.

use std::sync::Arc;

use ferretto_format::TURNED_AWAY;
use ferretto_proto::{TraceStats, UnknownFields};
use ferretto_wire::encode;

use super::events::{EventKind, EventLog, encode_sources};
use super::instance::{Instance, InstanceState};
use super::{Session, SessionState};
use crate::ids::ProducerId;
use crate::limits::MAX_SLOW_LISTED;

/// The name prefixes of data sources that record the machine or other programs and not their own.
/// If one leaves, data that it has not read yet, as from the kernel's buffers or the rings of the
/// heap profiler, is lost. Other programs lose nothing when they end, since their packets are
/// scraped from their shared memory.
const OF_THE_MACHINE: [&[u8]; 2] = [b"linux.", b"android."];

/// The data sources of a session whose producer left without having been asked to stop, and the
/// producers that could not connect.
#[derive(Debug, Clone, Default)]
pub(super) struct Gone {
    /// Names of producer and data source.
    sources: Vec<(Arc<[u8]>, Vec<u8>)>,
    /// The number of connections that were not served.
    turned_away: u64,
}

impl Gone {
    fn note(&mut self, instance: &Instance) {
        let name = instance.name();
        let is_known = |(producer, source): &(Arc<[u8]>, Vec<u8>)| {
            *producer == *instance.producer_name() && source == name
        };
        if self.sources.len() < MAX_SLOW_LISTED && !self.sources.iter().any(is_known) {
            self.sources
                .push((Arc::clone(instance.producer_name()), name.to_vec()));
        }
    }

    /// Records the data sources as ones that did not answer the last flush.
    pub(super) fn record(&self, events: &mut EventLog, boottime: u64) {
        if !self.sources.is_empty() {
            let names = self.sources.iter();
            let details =
                encode_sources(names.map(|(producer, source)| (producer.as_ref(), &source[..])));
            events.record_details(boottime, EventKind::LastFlushSlowDataSources, details);
        }
    }

    /// Adds the number of connections that were not served to the statistics.
    pub(super) fn count(&self, stats: &mut TraceStats) {
        if self.turned_away > 0 {
            let bytes = encode(|message| message.varint(TURNED_AWAY, self.turned_away));
            stats.unknown_fields = UnknownFields::decode_from_slice(&bytes).unwrap_or_default();
        }
    }
}

impl Session {
    /// Notes the data sources of a producer that gets no shared memory, or whose connection the
    /// service ends: they record nothing from then on.
    pub(crate) fn note_cut_off(&mut self, producer: ProducerId) {
        for (_, instance) in self.instances.of_producer(producer) {
            self.gone.note(instance);
        }
    }

    /// Notes connections of programs that were not served, if the session records or is about to.
    pub(crate) fn note_turned_away(&mut self, connections: u64) {
        if !matches!(self.state, SessionState::Disabled | SessionState::Cloned) {
            self.gone.turned_away = self.gone.turned_away.saturating_add(connections);
        }
    }

    /// Notes the data sources of a departed producer that were still recording, unless it has
    /// already handed over its last data.
    pub(crate) fn note_gone(&mut self, producer: ProducerId) {
        let records = matches!(self.state, SessionState::Started | SessionState::Stopping);
        if !records || self.flushes.has_last_data_of(producer) {
            return;
        }
        for (_, instance) in self.instances.of_producer(producer) {
            let records = matches!(
                instance.state(),
                InstanceState::Started | InstanceState::Stopping
            );
            let mut prefixes = OF_THE_MACHINE.iter();
            if records && prefixes.any(|prefix| instance.name().starts_with(prefix)) {
                self.gone.note(instance);
            }
        }
    }
}
