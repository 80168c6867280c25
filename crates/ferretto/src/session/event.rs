//! Events that a session reports.

use std::collections::VecDeque;

use ferretto_proto::ObservableEvents;
use ferretto_proto::observable_events::DataSourceInstanceState;

use super::SessionError;
use super::call::{Completer, Deadline};

/// The largest number of pending events.
const MAX_EVENTS: usize = 1024;

/// An event of a session. See [`Session::next_event`](super::Session::next_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A data source of some producer started or stopped recording.
    Instance {
        /// The producer's name.
        producer: String,
        /// The data source's name.
        data_source: String,
        /// True if the data source is recording now.
        is_recording: bool,
    },
    /// All data sources that were available when the session started are recording.
    AllStarted,
    /// A trigger requests a clone of the session. See
    /// [`TriggerMode::Clone`](super::TriggerMode::Clone).
    CloneTrigger {
        /// The trigger's name.
        name: String,
        /// The id of the session at the service.
        session_id: u64,
    },
    /// The recording ended.
    Ended {
        /// The service's message, if the recording failed.
        error: Option<String>,
    },
    /// The connection to the service is lost. This is the last event.
    Disconnected {
        /// The cause.
        reason: String,
    },
}

impl SessionEvent {
    /// Converts the events that the service reports at once.
    pub(super) fn from_service(mut seen: ObservableEvents) -> Vec<Self> {
        let text = |bytes: Option<Vec<u8>>| {
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
        };
        let mut events: Vec<_> = std::mem::take(&mut seen.instance_state_changes)
            .into_iter()
            .map(|change| Self::Instance {
                producer: text(change.producer_name),
                data_source: text(change.data_source_name),
                is_recording: change.state
                    == Some(DataSourceInstanceState::DATA_SOURCE_INSTANCE_STATE_STARTED),
            })
            .collect();
        if seen.all_data_sources_started == Some(true) {
            events.push(Self::AllStarted);
        }
        if let Some(hit) = seen.clone_trigger_hit.take() {
            events.push(Self::CloneTrigger {
                name: text(hit.trigger_name),
                session_id: hit.tracing_session_id.unwrap_or(0).cast_unsigned(),
            });
        }
        events
    }
}

/// Pending events, and the callers that wait for events.
#[derive(Debug, Default)]
pub(super) struct Events {
    untaken: VecDeque<SessionEvent>,
    waiting: VecDeque<Completer<SessionEvent>>,
}

impl Events {
    /// Adds an event. Drops the oldest if there are too many.
    pub(super) fn add(&mut self, event: SessionEvent) {
        if self.untaken.len() == MAX_EVENTS {
            self.untaken.pop_front();
        }
        self.untaken.push_back(event);
        self.hand_out();
    }

    pub(super) fn take(&mut self, done: Completer<SessionEvent>) {
        self.waiting.push_back(done);
        self.hand_out();
    }

    /// Puts back an event whose receiver gave up.
    pub(super) fn put_back(&mut self, event: SessionEvent) {
        self.untaken.push_front(event);
        self.hand_out();
    }

    /// Fails the waiting calls when no more events will come.
    pub(super) fn end(&mut self, error: impl Fn() -> SessionError) {
        for done in std::mem::take(&mut self.waiting) {
            done.complete(Err(error()));
        }
    }

    fn hand_out(&mut self) {
        self.waiting.retain(|done| !done.is_unwanted());
        while !self.untaken.is_empty() && !self.waiting.is_empty() {
            let event = self.untaken.pop_front();
            if let (Some(done), Some(event)) = (self.waiting.pop_front(), event) {
                done.complete(Ok(event));
            }
        }
    }

    /// Returns the earliest deadline of the waiting calls.
    pub(super) fn deadline(&self) -> Deadline {
        let deadlines = self.waiting.iter().map(Completer::deadline);
        deadlines.fold(Deadline::NEVER, Deadline::min)
    }

    pub(super) fn expire(&mut self) {
        super::call::expire(&mut self.waiting);
    }
}
