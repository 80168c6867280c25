//! Parts of a config without effect: data sources without packets, triggers that never fired, and
//! profilers without samples.

use std::collections::BTreeSet;

use ferretto_proto::fields::perf_events::timebase;
use ferretto_proto::fields::{
    data_source_config, perf_event_config, trace_config, trace_packet, trigger,
};
use ferretto_wire::Fields;

use super::names;
use crate::printable::printable;
use crate::profile::Profile;

/// The maximum number of names. Others are left out.
const MAX_NAMES: usize = 64;
/// The name of a timebase for off-CPU time.
const OFF_CPU: &[u8] = b"off-cpu";

/// The requested data sources and triggers of a config, and the triggers that fired.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    sources: BTreeSet<String>,
    triggers: Vec<String>,
    fired: BTreeSet<String>,
    samplers: Vec<Sampler>,
}

/// A data source that takes callstack samples.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sampler {
    is_off_cpu: bool,
    /// The number of samples per second; 0 if unknown.
    frequency: u64,
}

impl Wanted {
    /// Reads a `TraceConfig`; the last one is used.
    pub(super) fn config(&mut self, bytes: &[u8]) {
        self.sources.clear();
        self.triggers.clear();
        self.samplers.clear();
        for field in Fields::new(bytes).map_while(Result::ok) {
            let body = field.as_bytes().unwrap_or_default();
            match field.number {
                trace_config::DATA_SOURCES => self.data_source(body),
                trace_config::TRIGGER_CONFIG => self.trigger_config(body),
                _ => {}
            }
        }
    }

    fn data_source(&mut self, bytes: &[u8]) {
        let Some(config) = bytes_of(trace_config::data_source::CONFIG, bytes) else {
            return;
        };
        let name = bytes_of(data_source_config::NAME, config).unwrap_or_default();
        if self.sources.len() < MAX_NAMES {
            self.sources.insert(printable(name));
        }
        let perf = bytes_of(data_source_config::PERF_EVENT_CONFIG, config);
        if let Some(sampler) = perf.and_then(sampler)
            && self.samplers.len() < MAX_NAMES
        {
            self.samplers.push(sampler);
        }
    }

    fn trigger_config(&mut self, bytes: &[u8]) {
        let triggers = Fields::new(bytes).map_while(Result::ok);
        for one in triggers.filter(|field| field.number == trace_config::trigger_config::TRIGGERS) {
            let one = one.as_bytes().unwrap_or_default();
            let name = bytes_of(trace_config::trigger_config::trigger::NAME, one);
            let name = printable(name.unwrap_or_default());
            if self.triggers.len() < MAX_NAMES && !self.triggers.contains(&name) {
                self.triggers.push(name);
            }
        }
    }

    /// Reads a `Trigger`.
    pub(super) fn trigger(&mut self, bytes: &[u8]) {
        let name = bytes_of(trigger::TRIGGER_NAME, bytes).unwrap_or_default();
        if self.fired.len() < MAX_NAMES {
            self.fired.insert(printable(name));
        }
    }

    /// Returns a sentence for each part of the config without effect. `kinds` are the `TracePacket`
    /// fields in the trace. `has_reason` is true if data sources themselves reported why they took
    /// no samples.
    pub(super) fn notes(&self, kinds: &[u32], profile: &Profile, has_reason: bool) -> Vec<String> {
        let missing = self.sources.iter().filter(|name| is_missing(name, kinds));
        let mut notes: Vec<String> = missing
            .map(|name| {
                let reason = match name.as_str() {
                    "android.heapprofd" => {
                        "no program with the heap profiler's client was recorded; a statically linked program needs its allocator"
                    }
                    _ => "no program offers it, or it had no data",
                };
                format!("no data from the data source {name}: {reason}")
            })
            .collect();
        if !has_reason {
            let without = |sampler: &&Sampler| !has_samples(profile, sampler.is_off_cpu);
            notes.extend(self.samplers.iter().filter(without).map(Sampler::reason));
        }
        let never = self
            .triggers
            .iter()
            .filter(|name| !self.fired.contains(*name));
        notes.extend(never.map(|name| format!("the trigger {name} never fired")));
        notes
    }
}

impl Sampler {
    /// Returns the likely reason for the absence of samples.
    fn reason(&self) -> String {
        if self.is_off_cpu {
            return "0 off-CPU samples: the recorded threads never left a CPU".to_owned();
        }
        let each = match self.frequency {
            0 => String::new(),
            hz => format!(" ({:.1} ms)", 1000.0 / hz as f64),
        };
        format!(
            "0 callstack samples: the recorded processes used less CPU time than the sampling interval{each}; a higher rate \
             (--perf=HZ) takes more samples, and --off-cpu shows where programs wait"
        )
    }
}

fn sampler(config: &[u8]) -> Option<Sampler> {
    bytes_of(perf_event_config::CALLSTACK_SAMPLING, config)?;
    let base = bytes_of(perf_event_config::TIMEBASE, config).unwrap_or_default();
    let frequency = Fields::find(timebase::FREQUENCY, base);
    Some(Sampler {
        is_off_cpu: bytes_of(timebase::NAME, base) == Some(OFF_CPU),
        frequency: frequency.and_then(|hz| hz.as_u64()).unwrap_or(0),
    })
}

fn has_samples(profile: &Profile, is_off_cpu: bool) -> bool {
    profile.sessions().any(|(_, session)| {
        let skipped: u64 = session.skipped.values().sum();
        let all = session.samples + session.without_stack + skipped + session.kernel_lost;
        session.is_off_cpu() == is_off_cpu && all > 0
    })
}

/// Returns true if no packet can come from this data source.
fn is_missing(name: &str, kinds: &[u32]) -> bool {
    let has = |kind| kinds.contains(&kind);
    match name {
        // Programs may have written no events, and missing samples are reported separately.
        "track_event" | "linux.perf" => false,
        "linux.ftrace" => !has(trace_packet::FTRACE_EVENTS),
        "android.heapprofd" => !has(trace_packet::PROFILE_PACKET),
        // Packets of a kind with several sources may come from this one.
        name => kinds
            .iter()
            .all(|kind| names::source_of(*kind).is_some_and(|source| source != name)),
    }
}

fn bytes_of(field: u32, message: &[u8]) -> Option<&[u8]> {
    Fields::find(field, message)?.as_bytes()
}
