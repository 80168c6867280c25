//! The end of a recording, and whether the trace shows that nothing of it is missing.

use ferretto_proto::fields::tracing_service_event as event;
use ferretto_wire::Fields;

use crate::printable::printable;

/// Data sources that are told by name.
const MAX_SLOW: usize = 32;

/// The events of a recording, as the service tells of them.
///
/// At the end of a recording the service hands out the remaining packets, marks that, and adds its
/// statistics. So only statistics behind the mark are final; earlier ones do not cover later
/// losses.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) started: Option<u64>,
    pub(super) stopped: Option<u64>,
    /// The time of the last flush.
    flushed: Option<u64>,
    /// Data sources that did not answer the last flush.
    slow: Vec<String>,
    has_events: bool,
    is_drained: bool,
    statistics: Statistics,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Statistics {
    #[default]
    None,
    /// Of a time before the end, or nothing tells of which.
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

    /// There are statistics; `has_outcome` says whether they tell how the flush at the end came
    /// out.
    pub(super) fn statistics(&mut self, has_outcome: bool) {
        self.statistics = match self.is_drained || (!self.has_events && has_outcome) {
            true => Statistics::Final,
            false => Statistics::Early,
        };
    }

    /// Data sources that did not answer the last flush.
    pub(super) fn slow(&self) -> &[String] {
        &self.slow
    }

    /// Returns the time of the last flush, or else of the stop.
    pub(super) fn last_asked(&self) -> Option<u64> {
        self.flushed.or(self.stopped)
    }

    /// Why the statistics do not tell all that was lost, in a sentence.
    pub(super) fn doubt(&self) -> Option<&'static str> {
        Some(match self.statistics {
            Statistics::Final => return None,
            _ if self.has_events && self.stopped.is_none() => {
                "the end of the recording is not in the file, as when the service was killed or the file was cut; what \
                 was lost until then is not told"
            }
            _ if self.has_events && !self.is_drained => {
                "the last packets of the recording are not in the file, as when it was cut; what was lost is not told"
            }
            Statistics::None => "the trace has no final statistics, which tell what was lost",
            Statistics::Early if self.has_events => {
                "the statistics in the trace are not the final ones, so what was lost later is not told"
            }
            Statistics::Early => {
                "nothing in the trace tells whether its statistics are the final ones (disable_service_events)"
            }
        })
    }
}
