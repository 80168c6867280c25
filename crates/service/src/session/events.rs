//! Lifecycle events of a session, for its trace.

use ferretto_wire::encode;

use crate::limits::MAX_BUFFERS_PER_SESSION;

/// A kind of lifecycle event. The discriminants are field numbers of
/// `perfetto.protos.TracingServiceEvent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    AllDataSourcesStarted = 1,
    TracingStarted = 2,
    AllDataSourcesFlushed = 3,
    ReadCompleted = 4,
    TracingDisabled = 5,
    SlowStartingDataSources = 7,
    LastFlushSlowDataSources = 8,
    FlushStarted = 9,
    CloneStarted = 10,
    BufferCloned = 11,
}

impl EventKind {
    /// Returns the number of events of a kind kept between two reads; the oldest are dropped.
    fn history(self) -> usize {
        match self {
            Self::FlushStarted | Self::AllDataSourcesFlushed => 64,
            Self::BufferCloned => MAX_BUFFERS_PER_SESSION,
            // A clone is preceded by two flushes.
            Self::LastFlushSlowDataSources => 2,
            _ => 1,
        }
    }
}

/// The value of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventValue {
    Flag,
    Number(u64),
    /// An encoded message.
    Message(Vec<u8>),
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoggedEvent {
    /// `CLOCK_BOOTTIME`.
    pub(super) timestamp: u64,
    pub(super) kind: EventKind,
    pub(super) value: EventValue,
}

/// Events that were not read yet.
#[derive(Debug, Default, Clone)]
pub(super) struct EventLog {
    events: Vec<LoggedEvent>,
}

impl EventLog {
    pub(super) fn record(&mut self, timestamp: u64, kind: EventKind) {
        self.push(LoggedEvent {
            timestamp,
            kind,
            value: EventValue::Flag,
        });
    }

    pub(super) fn record_details(&mut self, timestamp: u64, kind: EventKind, details: Vec<u8>) {
        self.push(LoggedEvent {
            timestamp,
            kind,
            value: EventValue::Message(details),
        });
    }

    pub(super) fn record_number(&mut self, timestamp: u64, kind: EventKind, number: u64) {
        self.push(LoggedEvent {
            timestamp,
            kind,
            value: EventValue::Number(number),
        });
    }

    /// Forgets events of this kind.
    pub(super) fn forget(&mut self, kind: EventKind) {
        self.events.retain(|event| event.kind != kind);
    }

    /// Takes all events, oldest first.
    pub(super) fn take(&mut self) -> Vec<LoggedEvent> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.timestamp);
        events
    }

    fn push(&mut self, event: LoggedEvent) {
        let same = self.events.iter().filter(|e| e.kind == event.kind).count();
        if same >= event.kind.history()
            && let Some(oldest) = self.events.iter().position(|e| e.kind == event.kind)
        {
            self.events.remove(oldest);
        }
        self.events.push(event);
    }
}

/// Encodes `TracingServiceEvent.DataSources` from names of producers and data sources.
pub(super) fn encode_sources<'a>(names: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    use ferretto_proto::fields::tracing_service_event::data_sources;
    encode(|list| {
        for (producer, source) in names {
            list.nested(data_sources::DATA_SOURCE, |entry| {
                entry.bytes(data_sources::data_source::PRODUCER_NAME, producer);
                entry.bytes(data_sources::data_source::DATA_SOURCE_NAME, source);
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_bounded_history_per_kind() {
        let mut log = EventLog::default();
        for time in 0..100 {
            log.record(time, EventKind::FlushStarted);
            log.record(time, EventKind::TracingStarted);
        }
        log.record(5, EventKind::ReadCompleted);
        let events = log.take();
        let of = |kind| events.iter().filter(move |e| e.kind == kind);
        assert_eq!(of(EventKind::FlushStarted).count(), 64);
        assert_eq!(of(EventKind::FlushStarted).next().unwrap().timestamp, 36);
        assert_eq!(
            of(EventKind::TracingStarted)
                .map(|e| e.timestamp)
                .collect::<Vec<_>>(),
            [99]
        );
        assert_eq!(events[0].kind, EventKind::ReadCompleted);
        assert!(log.take().is_empty());
    }
}
