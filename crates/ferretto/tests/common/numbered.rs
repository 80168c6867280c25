//! Events with numbers, which tell which of them are missing from a trace.

use std::collections::BTreeMap;
use std::io::Read;

use ferretto_trace::TraceReader;
use ferretto_trace::events::{EventReader, Problems, Value};
use ferretto_wire::Fields;

/// Writes events `from..to` of a thread: instants and slices in turn, all with the same arguments.
pub fn write(thread: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        if number % 2 == 0 {
            ferretto::instant!("numbered", "instant", thread = thread, number = number);
        } else {
            let _slice = ferretto::slice!("numbered", "slice", thread = thread, number = number);
        }
    }
}

/// Everything a trace tells of one thread's events.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The number of its events that there are.
    pub seen: u64,
    /// The first number.
    pub first: u64,
    /// The count of numbers that are missing before one that is there.
    pub missing: u64,
    /// The count of gaps that are not where the trace says that something was lost.
    pub unexplained: u64,
    /// The number after the last.
    pub next: u64,
}

/// Everything a trace tells of all threads' events.
#[derive(Debug, Default)]
pub struct Numbered {
    pub threads: BTreeMap<u64, Thread>,
    /// The number of times it says that something was lost.
    pub losses: u64,
    pub problems: Problems,
}

/// Reads a trace packet by packet.
pub fn read(input: impl Read) -> Numbered {
    let mut packets = TraceReader::new(input);
    let mut reader = EventReader::new();
    let mut numbered = Numbered::default();
    // Sequences that have lost something since their last event.
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
    numbered
}

/// Returns how much is to be done: a little, or with the environment variable `FERRETTO_STRESS` as
/// much as takes minutes.
pub fn amount(little: u64, much: u64) -> u64 {
    match std::env::var_os("FERRETTO_STRESS") {
        Some(_) => much,
        None => little,
    }
}
