//! The packets written for each session, and those read from it.

use std::collections::BTreeMap;

use ferretto_proto::TraceStats;
use ferretto_service::ClientId;

use crate::stamp::{Look, Stamp};
use crate::tally::Tally;
use crate::world::Packet;

/// An honest writer.
#[derive(Debug)]
pub struct Record {
    pub producer: ClientId,
    pub uid: u32,
    pub pid: Option<i32>,
    pub machine: u32,
    /// The label of its session.
    pub label: u64,
    /// The index of the buffer in the session's config.
    pub buffer: usize,
    pub written: u64,
    /// The deliveries: the time, and the last packet delivered by then.
    pub delivered: Vec<(u64, u64)>,
    /// Set if data was lost in transit, or aborted by the writer.
    pub harmed: bool,
}

/// The expected content of a session's trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    /// Set if the trace has the fields of honest packets, but neither their writers nor events.
    pub filtered: bool,
    /// Set if data may be left out: before a trigger, or beyond a size.
    pub partial: bool,
    /// Set if data may move to clones, or be cleared for them.
    pub gives_away: bool,
}

/// The packets of one writer that were read.
#[derive(Debug, Default)]
pub struct Seen {
    pub last: u64,
    /// The missing ranges, inclusive.
    pub gaps: Vec<(u64, u64)>,
}

/// The packets of one session, clone or file that were read.
#[derive(Debug, Default)]
pub struct Trace {
    pub label: Option<u64>,
    /// Set if it may begin in the middle.
    pub clone: bool,
    /// Set if its end may not have arrived.
    pub broken: bool,
    pub seen: BTreeMap<usize, Seen>,
    sequences: BTreeMap<u64, ClientId>,
    /// The time of the session's end, and its final statistics.
    pub ended: Option<u64>,
    pub stats: Option<TraceStats>,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub writers: Vec<Record>,
    pub traces: Vec<Trace>,
    pub plans: BTreeMap<u64, Plan>,
}

impl Ledger {
    pub fn new_trace(&mut self, label: Option<u64>) -> usize {
        self.traces.push(Trace {
            label,
            ..Trace::default()
        });
        self.traces.len() - 1
    }

    /// Notes that clones are requested, of whichever sessions.
    pub fn give_away(&mut self) {
        for plan in self.plans.values_mut().filter(|plan| plan.gives_away) {
            plan.partial = true;
        }
    }

    /// Checks that an honest writer's packet is the right one, in its order.
    pub fn read(&mut self, trace: usize, stamp: Stamp, look: &Look<'_>, tally: &mut Tally) {
        let trace = &mut self.traces[trace];
        let label = *trace.label.get_or_insert(stamp.label);
        assert_eq!(label, stamp.label, "{stamp:?} in the trace of {label}");
        let record = self.writers.get(stamp.writer).expect("a writer");
        assert_eq!(record.label, label, "a label of its own");
        assert!(stamp.count <= record.written, "{stamp:?} was never written");
        let filtered = self.plans.get(&label).is_some_and(|plan| plan.filtered);
        if !filtered {
            assert_eq!(look.uid, Some(record.uid.into()), "{stamp:?}");
            assert_eq!(look.pid, record.pid.map(|pid| pid as u64), "{stamp:?}");
            assert_eq!(
                look.machine.unwrap_or(0),
                record.machine.into(),
                "{stamp:?}"
            );
        }
        let sequence = look.sequence.expect("a sequence");
        let owner = *trace.sequences.entry(sequence).or_insert(record.producer);
        assert_eq!(owner, record.producer, "sequence {sequence} is of two");
        let seen = trace.seen.entry(stamp.writer);
        let first = matches!(seen, std::collections::btree_map::Entry::Vacant(_));
        let seen = seen.or_default();
        let last = seen.last;
        assert!(stamp.count > last, "{stamp:?} after {last}");
        if stamp.count > last + 1 {
            assert!(
                first || look.loss != 0,
                "{stamp:?} after {last} and nobody says so"
            );
            seen.gaps.push((last + 1, stamp.count - 1));
            tally.gaps += u64::from(!first);
        }
        seen.last = stamp.count;
        tally.packets += 1;
    }

    /// Notes the content of a packet of the service.
    pub fn note(&mut self, trace: usize, look: Look<'_>) {
        let trace = &mut self.traces[trace];
        if let Some(lsb) = look.uuid_lsb {
            let label = *trace.label.get_or_insert(lsb);
            assert_eq!(label, lsb, "the trace of another session");
        }
        if look.disabled {
            trace.ended = Some(look.timestamp);
            trace.stats = None;
        }
        if look.stats.is_some() {
            trace.stats = look.stats;
        }
    }

    /// Checks all packets of a file, which is a trace of its own.
    pub fn read_file(&mut self, packets: &[Packet], tally: &mut Tally) -> usize {
        let trace = self.new_trace(None);
        for packet in packets {
            let look = Look::at(packet);
            if !look.is_data() {
                self.note(trace, look);
            } else if let Some(stamp) = look.text.and_then(Stamp::of) {
                self.read(trace, stamp, &look, tally);
            }
        }
        trace
    }
}
