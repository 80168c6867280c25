//! The incremental state of one sequence, to be repeated at the start of a part.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ferretto_format::budget::Budget;
use ferretto_format::clock::BOOTTIME;
use ferretto_format::sequence::{FaultSink, InternedEntry, SequenceState};
use ferretto_format::sequence_flags::INCREMENTAL_STATE_CLEARED;
use ferretto_format::track_event::EventState;
use ferretto_proto::fields::{trace_packet, trace_packet_defaults};
use ferretto_wire::{Encoder, Fields, encode};

/// The memory overhead of an entry, in bytes.
const ENTRY_BYTES: usize = 64;

/// The identity of a writer, which is in each of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) sequence: u32,
    pub(crate) machine: u32,
    pub(crate) uid: Option<u32>,
    pub(crate) pid: Option<i32>,
    /// The clock of converted times: boot time, unless the trace has none.
    pub(crate) clock: u32,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            sequence: 0,
            machine: 0,
            uid: None,
            pid: None,
            clock: BOOTTIME,
        }
    }
}

impl Writer {
    /// Writes a converted time.
    pub(crate) fn write_time(&self, time: u64, out: &mut Encoder<'_, Vec<u8>>) {
        out.varint(trace_packet::TIMESTAMP, time);
        out.varint(trace_packet::TIMESTAMP_CLOCK_ID, self.clock.into());
    }

    /// Writes the fields that identify it.
    pub(crate) fn write(&self, out: &mut Encoder<'_, Vec<u8>>) {
        out.varint(
            trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
            self.sequence.into(),
        );
        if let Some(uid) = self.uid {
            out.varint(trace_packet::TRUSTED_UID, uid.into());
        }
        if let Some(pid) = self.pid {
            out.int(trace_packet::TRUSTED_PID, pid.into());
        }
        if self.machine != 0 {
            out.varint(trace_packet::MACHINE_ID, self.machine.into());
        }
    }
}

/// Interned entries by table and iid.
type Entries = BTreeMap<(u32, u64), Box<[u8]>>;

/// The interned data and defaults of a sequence between two restarts. Open events keep the epoch in
/// which they were written.
#[derive(Debug)]
pub(crate) struct Epoch {
    entries: RefCell<Entries>,
    defaults: RefCell<Option<Box<[u8]>>>,
    budget: Budget,
    taken: Cell<usize>,
}

impl Epoch {
    fn new(budget: &Budget) -> Rc<Self> {
        Rc::new(Self {
            entries: RefCell::default(),
            defaults: RefCell::default(),
            budget: budget.clone(),
            taken: Cell::new(0),
        })
    }

    /// Returns a packet that restores this epoch.
    pub(crate) fn packet(&self, writer: &Writer) -> Vec<u8> {
        encode(|out| {
            writer.write(out);
            out.varint(trace_packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
            if let Some(defaults) = &*self.defaults.borrow() {
                out.bytes(trace_packet::TRACE_PACKET_DEFAULTS, defaults);
            }
            let entries = self.entries.borrow();
            if !entries.is_empty() {
                out.nested(trace_packet::INTERNED_DATA, |data| {
                    for ((table, _), bytes) in entries.iter() {
                        data.bytes(*table, bytes);
                    }
                });
            }
        })
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = self.budget.take(bytes);
        if fits {
            self.taken.set(self.taken.get() + bytes);
        }
        fits
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.budget.give_back(self.taken.get());
    }
}

/// The incremental state of a sequence.
#[derive(Debug)]
pub(crate) struct Incremental {
    pub(crate) epoch: Rc<Epoch>,
    budget: Budget,
    /// The default clock of packets.
    pub(crate) clock: Option<u32>,
    /// The defaults and the base of relative times of track events.
    pub(crate) event: EventState,
    /// The number of restarts.
    pub(crate) starts: u64,
}

impl SequenceState for Incremental {
    fn new(budget: &Budget) -> Self {
        Self {
            epoch: Epoch::new(budget),
            budget: budget.clone(),
            clock: None,
            event: EventState::default(),
            starts: 0,
        }
    }

    fn restart(&mut self) {
        self.epoch = Epoch::new(&self.budget);
        self.clock = None;
        self.event.restart();
        self.starts += 1;
    }

    fn lose(&mut self) {
        self.event.lose();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        if self.epoch.take(defaults.len()) {
            *self.epoch.defaults.borrow_mut() = Some(defaults.into());
        }
        let clock = Fields::find(trace_packet_defaults::TIMESTAMP_CLOCK_ID, defaults);
        self.clock = clock.and_then(|clock| clock.as_u32());
        self.event.set_defaults(defaults);
    }

    fn intern(&mut self, interned: &[u8], _: FaultSink<'_>) {
        let mut entries = self.epoch.entries.borrow_mut();
        for entry in InternedEntry::all(interned) {
            let key = (entry.table, entry.iid);
            // The first definition is kept.
            if !entries.contains_key(&key) && self.epoch.take(entry.bytes.len() + ENTRY_BYTES) {
                entries.insert(key, entry.bytes.into());
            }
        }
    }
}
