//! Reading sequences of packets: the incremental state that earlier packets of a sequence leave for its later ones, what
//! a lost packet makes void, and times converted to one clock. The rules are those of upstream's trace processor.
//!
//! A reader of some kind of packets brings a [`SequenceState`], the incremental state of its kind. For each packet
//! [`SequenceReader::read`] returns that state and the packet's time, or the [`Fault`] that makes the packet void.

mod clock;
mod fault;
mod packet;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::Fields;

pub use self::clock::Clocks;
pub use self::fault::{Fault, FaultSink};
pub use self::packet::PacketHeader;

use self::clock::SequenceClock;
use crate::budget::{Budget, entry_bytes};
use crate::clock::BOOTTIME;

/// Sequences beyond this number are left out, so that memory stays in proportion on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// The incremental state of one sequence, as one kind of packets needs it.
pub trait SequenceState {
    /// Returns that of a sequence without packets. What it keeps is taken from `budget`.
    fn new(budget: &Budget) -> Self;

    /// Forgets everything: what earlier packets said is void.
    fn restart(&mut self);

    /// Reads a `TracePacketDefaults`, which replaces what was before.
    fn set_defaults(&mut self, defaults: &[u8]);

    /// Reads an `InternedData`.
    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>);
}

/// The sequences of a trace, with their clocks and incremental state.
#[derive(Debug)]
pub struct SequenceReader<S> {
    all: BTreeMap<u32, Sequence<S>>,
    clocks: Clocks,
    budget: Budget,
}

/// One writer.
#[derive(Debug)]
struct Sequence<S> {
    /// True if everything since the last new start is known.
    is_valid: bool,
    /// The clock of packets that name none.
    clock: Option<u32>,
    /// Clocks of the sequence alone, by number.
    clocks: BTreeMap<u32, SequenceClock>,
    state: S,
}

/// The context in which a packet is to be read.
#[derive(Debug)]
pub struct PacketContext<'a, S> {
    /// The incremental state of its sequence.
    pub state: &'a mut S,
    /// The clocks that all sequences share.
    pub clocks: &'a Clocks,
    /// The packet's timestamp in nanoseconds of boot time, if it has one.
    pub time: Option<Result<u64, Fault>>,
}

impl<S: SequenceState> SequenceReader<S> {
    /// Returns a reader that has seen nothing, and whose tables take from `budget`.
    pub fn new(budget: &Budget) -> Self {
        Self {
            all: BTreeMap::new(),
            clocks: Clocks::default(),
            budget: budget.clone(),
        }
    }

    /// Returns the clocks that all sequences share.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Takes in what a packet says for later ones, and returns the context to read it in. `None` for a clock snapshot:
    /// whatever else is in it is not looked at. Faults that leave the rest of the packet valid go to `faults`.
    ///
    /// # Errors
    ///
    /// If nothing in the packet can be understood but what needs no sequence.
    pub fn read(
        &mut self,
        packet: &PacketHeader<'_>,
        faults: FaultSink<'_>,
    ) -> Result<Option<PacketContext<'_, S>>, Fault> {
        if packet.sequence == 0 {
            if let Some(snapshot) = packet.snapshot {
                self.clocks.snapshot(snapshot, None, faults);
            }
            return Err(Fault::NoSequence);
        }
        let is_full = self.all.len() >= MAX_SEQUENCES;
        let budget = &self.budget;
        let sequence = match self.all.entry(packet.sequence) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full || !budget.take(entry_bytes::<Sequence<S>>()) => {
                return Err(Fault::TooManySequences);
            }
            Entry::Vacant(new) => new.insert(Sequence {
                is_valid: false,
                clock: None,
                clocks: BTreeMap::new(),
                state: S::new(budget),
            }),
        };
        sequence.update(packet, faults)?;
        if let Some(snapshot) = packet.snapshot {
            self.clocks
                .snapshot(snapshot, Some((&mut sequence.clocks, budget)), faults);
            return Ok(None);
        }
        // Every packet moves a clock that counts from the one before.
        let clock = packet.clock.or(sequence.clock).unwrap_or(BOOTTIME);
        let clocks = &mut sequence.clocks;
        let to_boot = |value| self.clocks.packet_to_boot(value, clock, clocks);
        let time = packet.timestamp.map(to_boot);
        Ok(Some(PacketContext {
            state: &mut sequence.state,
            clocks: &self.clocks,
            time,
        }))
    }
}

impl<S: SequenceState> Sequence<S> {
    fn update(&mut self, packet: &PacketHeader<'_>, faults: FaultSink<'_>) -> Result<(), Fault> {
        if packet.is_cleared {
            self.is_valid = true;
            self.clock = None;
            self.state.restart();
        } else if packet.is_after_loss {
            self.is_valid = false;
        }
        if packet.needs_state && !self.is_valid {
            return Err(Fault::StateInvalid);
        }
        if let Some(defaults) = packet.defaults {
            let clock = Fields::find(trace_packet_defaults::TIMESTAMP_CLOCK_ID, defaults);
            self.clock = clock.and_then(|clock| clock.as_u32());
            self.state.set_defaults(defaults);
        }
        if let Some(interned) = packet.interned {
            self.state.intern(interned, faults);
        }
        Ok(())
    }
}
