//! Numbered events, which show which events are missing from a trace.

use std::collections::BTreeMap;
use std::io::Read;

use ferretto_trace::events::{EventReader, Problem, Problems, Value};
use ferretto_trace::{Limits, TraceReader};
use ferretto_wire::Fields;

/// The memory of a reader, which keeps the times of all slices.
const MEMORY: u64 = 4 << 30;

/// Writes events of a thread: alternating instants and slices, all with the same arguments.
pub fn write(thread: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        if number % 2 == 0 {
            ferretto::instant!("numbered", "instant", thread = thread, number = number);
        } else {
            let _slice = ferretto::slice!("numbered", "slice", thread = thread, number = number);
        }
    }
}

/// The events of one thread in a trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The number of events in the trace.
    pub seen: u64,
    /// The first number in the trace.
    pub first: u64,
    /// The count of missing numbers, except those after the last event.
    pub missing: u64,
    /// The count of gaps where the trace reports no loss.
    pub unexplained: u64,
    /// The number after the last one.
    pub next: u64,
}

/// The events of all threads in a trace.
#[derive(Debug, Default)]
pub struct Numbered {
    pub threads: BTreeMap<u64, Thread>,
    /// The number of losses that the trace reports.
    pub losses: u64,
    pub problems: Problems,
}

/// Reads a trace packet by packet.
pub fn read(input: impl Read) -> Numbered {
    let mut packets = TraceReader::new(input);
    let mut reader = EventReader::with_limits(Limits::memory(MEMORY));
    let mut numbered = Numbered::default();
    // Sequences with a loss since their last event.
    let mut lossy: BTreeMap<u64, bool> = BTreeMap::new();
    while let Some(packet) = packets.next_packet().unwrap() {
        let number = |field| {
            let field = Fields::find(field, packet.bytes);
            field.and_then(|field| field.as_u64()).unwrap_or(0)
        };
        let lossy = lossy.entry(number(10)).or_default();
        if number(42) > 1 {
            numbered.losses += 1;
            *lossy = true;
        }
        let Some(event) = reader.add(packet.bytes) else {
            continue;
        };
        let value = |key| match event.arguments.iter().find(|(name, _)| name == key)?.1 {
            Value::Uint(value) => Some(value),
            _ => None,
        };
        let (Some(thread), Some(number)) = (value("thread"), value("number")) else {
            continue;
        };
        let thread = numbered.threads.entry(thread).or_default();
        assert!(
            number >= thread.next,
            "{number} comes after {}",
            thread.next
        );
        let missing = number - thread.next;
        if thread.seen == 0 {
            thread.first = number;
        }
        thread.seen += 1;
        thread.missing += missing;
        thread.unexplained += u64::from(missing > 0 && !*lossy);
        thread.next = number + 1;
        *lossy = false;
    }
    numbered.problems = reader.finish().1;
    let left_out = numbered.problems.count(Problem::NoMemory);
    assert_eq!(left_out, 0, "events beyond the memory of the reader");
    numbered
}

/// Returns the amount of work: `little`, or `much`, which takes minutes, with the environment
/// variable `FERRETTO_STRESS`.
pub fn amount(little: u64, much: u64) -> u64 {
    match std::env::var_os("FERRETTO_STRESS") {
        Some(_) => much,
        None => little,
    }
}
