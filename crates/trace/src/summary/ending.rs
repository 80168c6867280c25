//! The end of a recording: a check that the trace contains all of it.

use ferretto_proto::fields::tracing_service_event as event;
use ferretto_text::amount::human_bytes;
use ferretto_wire::Fields;

use crate::printable::printable;

/// The maximum number of data sources reported by name.
const MAX_SLOW: usize = 32;

/// The lifecycle events of a recording, as the service reported them.
///
/// At the end of a recording, the service writes the remaining packets, an event that marks their
/// end, and its statistics. Only statistics after this event are final; earlier ones do not cover
/// later losses.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) started: Option<u64>,
    pub(super) stopped: Option<u64>,
    /// The time of the last flush.
    flushed: Option<u64>,
    /// The data sources that did not answer the last flush.
    slow: Vec<String>,
    has_events: bool,
    is_drained: bool,
    /// The size at which the recording's file ends; 0 for none.
    max_file_bytes: u64,
    statistics: Statistics,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Statistics {
    #[default]
    None,
    /// Of a time before the end, or of an unknown time.
    Early,
    Final,
}

impl Ending {
    /// Reads a `TracingServiceEvent`.
    pub(super) fn event(&mut self, body: &[u8], at: Option<u64>) {
        self.has_events = true;
        for field in Fields::new(body).map_while(Result::ok) {
            match field.number {
                event::TRACING_STARTED => self.started = self.started.or(at),
                event::TRACING_DISABLED => {
                    self.stopped = at.or(self.stopped);
                    self.is_drained = false;
                }
                event::READ_TRACING_BUFFERS_COMPLETED => self.is_drained = self.stopped.is_some(),
                event::FLUSH_STARTED if self.stopped.is_none() => {
                    self.flushed = at.or(self.flushed);
                    self.slow.clear();
                }
                event::LAST_FLUSH_SLOW_DATA_SOURCES => {
                    self.add_slow(field.as_bytes().unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    fn add_slow(&mut self, sources: &[u8]) {
        for source in Fields::new(sources).map_while(Result::ok) {
            let name = |number| {
                let name = Fields::find(number, source.as_bytes()?)?.as_bytes()?;
                Some(printable(name))
            };
            let (producer, source) = (name(1).unwrap_or_default(), name(2).unwrap_or_default());
            let source = format!("{source} of {producer}");
            if self.slow.len() < MAX_SLOW && !self.slow.contains(&source) {
                self.slow.push(source);
            }
        }
    }

    /// Records the size at which the recording's file ends; 0 for none.
    pub(super) fn limit_file(&mut self, max_bytes: u64) {
        self.max_file_bytes = max_bytes;
    }

    /// Records a packet of statistics. `has_outcome` is true if it contains the outcome of the
    /// final flush.
    pub(super) fn statistics(&mut self, has_outcome: bool) {
        let is_final = self.is_drained || self.is_cut() || (!self.has_events && has_outcome);
        self.statistics = if is_final {
            Statistics::Final
        } else {
            Statistics::Early
        };
    }

    /// Returns true if the recording has ended without its last packets, which its file had no
    /// space for. Statistics in this state are the final ones: those of an earlier time precede the
    /// stop.
    pub(super) fn is_cut(&self) -> bool {
        self.max_file_bytes > 0 && self.stopped.is_some() && !self.is_drained
    }

    /// Returns a note if the recording ended since its file had reached the size limit.
    pub(super) fn limit_note(&self) -> Option<String> {
        (self.is_cut() && self.statistics == Statistics::Final).then(|| {
            format!(
                "the recording ended when its file reached its limit of {} (--until-size, or max_file_size_bytes in the \
                 config)",
                human_bytes(self.max_file_bytes)
            )
        })
    }

    /// The data sources that did not answer the last flush.
    pub(super) fn slow(&self) -> &[String] {
        &self.slow
    }

    /// Returns the time of the last flush, or else that of the stop: up to this time the trace has
    /// all events. `None` if its file had no space for the last ones.
    pub(super) fn last_asked(&self) -> Option<u64> {
        self.flushed.or(self.stopped).filter(|_| !self.is_cut())
    }

    /// Returns a sentence with the reason why the statistics may not contain all losses.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        Some(match self.statistics {
            Statistics::Final => return None,
            _ if self.has_events && self.stopped.is_none() => {
                "the end of the recording is not in the file (the service was killed, or the file is truncated), so losses are \
                 unknown"
            }
            _ if self.has_events && !self.is_drained => {
                "the last packets of the recording are not in the file (it may be truncated), so losses are unknown"
            }
            Statistics::None => "the trace has no final statistics, so losses are unknown",
            Statistics::Early if self.has_events => {
                "the statistics in the trace are not the final ones, so later losses are unknown"
            }
            Statistics::Early => {
                "the trace does not show if its statistics are the final ones (disable_service_events)"
            }
        })
    }
}
