//! Reading of packet sequences: the incremental state of a sequence, the effect of lost packets on
//! it, and conversion of times to one clock. The rules are those of upstream's trace processor.
//!
//! A reader provides a [`SequenceState`], the incremental state for its kind of packets. For each
//! packet [`SequenceReader::read`] returns that state and the packet's time, or the [`Fault`] that
//! makes the packet unusable.

mod clock;
mod fault;
mod indexes;
mod interned;
mod packet;

use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::Fields;

pub use self::clock::Clocks;
pub use self::fault::{Fault, FaultSink};
pub use self::interned::{InternedEntry, InternedStrings, InternedTable};
pub use self::packet::PacketHeader;

use self::clock::SequenceClocks;
use self::indexes::SequenceIndexes;
use crate::budget::{Budget, entry_bytes};
use crate::clock::SEQUENCE;

/// The largest number of sequences, which bounds memory on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// The incremental state of one sequence, for one kind of packets.
pub trait SequenceState {
    /// Creates the state of a new sequence. Its memory is taken from `budget`.
    fn new(budget: &Budget) -> Self;

    /// Forgets everything: the previous state is void.
    fn restart(&mut self);

    /// Handles a loss of packets. The state stays valid for packets that do not need all of it.
    fn lose(&mut self) {}

    /// Handles a `TracePacketDefaults`, which replaces the previous ones.
    fn set_defaults(&mut self, defaults: &[u8]);

    /// Handles an `InternedData`.
    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>);
}

/// The sequences of a trace, with their clocks and incremental state.
#[derive(Debug)]
pub struct SequenceReader<S> {
    indexes: SequenceIndexes,
    all: Vec<Sequence<S>>,
    clocks: Clocks,
    /// The latest time of the packets so far.
    latest: u64,
    budget: Budget,
}

/// The sequence of one writer.
#[derive(Debug)]
struct Sequence<S> {
    id: u32,
    /// Set if all packets since the last restart are known.
    is_valid: bool,
    /// The default clock of packets.
    clock: Option<u32>,
    clocks: SequenceClocks,
    state: S,
}

/// The context for decoding a packet.
#[derive(Debug)]
pub struct PacketContext<'a, S> {
    /// The incremental state of the sequence.
    pub state: &'a mut S,
    /// The clocks shared by all sequences.
    pub clocks: &'a Clocks,
    /// The packet's timestamp in nanoseconds of boot time, if it has one.
    pub time: Option<Result<u64, Fault>>,
    /// The latest time of the packets so far.
    latest: u64,
    /// The clock of the packet's timestamp, if it has one.
    pub clock: u32,
    /// Set if all packets since the last restart are known.
    pub is_valid: bool,
}

impl<'a, S> PacketContext<'a, S> {
    /// Reborrows the context.
    pub fn reborrow(&mut self) -> PacketContext<'_, S> {
        PacketContext {
            state: self.state,
            clocks: self.clocks,
            time: self.time,
            latest: self.latest,
            clock: self.clock,
            is_valid: self.is_valid,
        }
    }

    /// Returns the time of a sample in the packet. Without a timestamp, it is the latest time of
    /// the packets so far.
    ///
    /// # Errors
    ///
    /// Fails if the clock of the timestamp is unknown.
    pub fn sample_time(&self) -> Result<u64, Fault> {
        self.time.unwrap_or(Ok(self.latest))
    }

    /// Returns the context for a reader whose state is a part of this one.
    pub fn of_part<P>(self, part: impl FnOnce(&'a mut S) -> &'a mut P) -> PacketContext<'a, P> {
        PacketContext {
            state: part(self.state),
            clocks: self.clocks,
            time: self.time,
            latest: self.latest,
            clock: self.clock,
            is_valid: self.is_valid,
        }
    }
}

impl<S: SequenceState> SequenceReader<S> {
    /// Creates a reader whose tables take memory from `budget`. It converts times to boot time.
    pub fn new(budget: &Budget) -> Self {
        Self::with_clocks(Clocks::new(true), budget)
    }

    /// Creates a reader that keeps times on the clocks of the trace, except for the clocks of a
    /// sequence.
    pub fn without_conversion(budget: &Budget) -> Self {
        Self::with_clocks(Clocks::new(false), budget)
    }

    fn with_clocks(clocks: Clocks, budget: &Budget) -> Self {
        Self {
            indexes: SequenceIndexes::default(),
            all: Vec::new(),
            clocks,
            latest: 0,
            budget: budget.clone(),
        }
    }

    /// Returns the clocks shared by all sequences.
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Returns the clocks shared by all sequences, at the end of the trace.
    pub fn into_clocks(self) -> Clocks {
        self.clocks
    }

    /// Returns the ids and states of all sequences, in the order of their first packets.
    pub fn states(&self) -> impl Iterator<Item = (u32, &S)> {
        self.all.iter().map(|one| (one.id, &one.state))
    }

    /// Returns the state of a known sequence.
    #[inline]
    pub fn state_mut(&mut self, sequence: u32) -> Option<&mut S> {
        let index = self.indexes.get(sequence)?;
        self.all.get_mut(index).map(|one| &mut one.state)
    }

    /// Converts the timestamp of a packet that [`read`](Self::read) rejected, if it is on a shared
    /// clock.
    pub fn shared_time(&self, packet: &PacketHeader<'_>) -> Option<Result<u64, Fault>> {
        let machine = packet.machine;
        let default = (packet.sequence == 0).then(|| self.clocks.default_clock(machine));
        let clock = packet.clock.or(default)?;
        let timestamp = packet.timestamp.filter(|_| !SEQUENCE.contains(&clock))?;
        Some(self.clocks.to_boot(machine, timestamp, clock))
    }

    /// Updates the state with a packet's incremental data, and returns the context for decoding the
    /// packet. `None` for a clock snapshot: other content of such a packet is ignored. Faults that
    /// leave the rest of the packet valid are passed to `faults`.
    ///
    /// # Errors
    ///
    /// Fails if the packet is unusable, except for content that needs no sequence.
    pub fn read(
        &mut self,
        packet: &PacketHeader<'_>,
        faults: FaultSink<'_>,
    ) -> Result<Option<PacketContext<'_, S>>, Fault> {
        if packet.sequence == 0 {
            if let Some(snapshot) = packet.snapshot {
                self.clocks.snapshot(packet.machine, snapshot, None, faults);
            }
            return Err(Fault::NoSequence);
        }
        let index = match self.indexes.get(packet.sequence) {
            Some(index) => index,
            None => self.add(packet.sequence)?,
        };
        let sequence = self.all.get_mut(index).ok_or(Fault::TooManySequences)?;
        let budget = &self.budget;
        sequence.update(packet, faults)?;
        if let Some(snapshot) = packet.snapshot {
            let of_sequence = Some((&mut sequence.clocks, budget));
            self.clocks
                .snapshot(packet.machine, snapshot, of_sequence, faults);
            return Ok(None);
        }
        let clock = packet.clock.or(sequence.clock).filter(|clock| *clock != 0);
        let clock = clock.unwrap_or_else(|| self.clocks.default_clock(packet.machine));
        // Every packet advances an incremental clock.
        let time = packet.timestamp.map(|value| {
            self.clocks
                .packet_to_boot(packet.machine, value, clock, &sequence.clocks)
        });
        if let Some(Ok(time)) = time {
            self.latest = self.latest.max(time);
        }
        Ok(Some(PacketContext {
            state: &mut sequence.state,
            clocks: &self.clocks,
            time,
            latest: self.latest,
            clock,
            is_valid: sequence.is_valid,
        }))
    }

    #[cold]
    fn add(&mut self, id: u32) -> Result<usize, Fault> {
        let index = self.all.len();
        let bytes = entry_bytes::<(u32, u32)>() + entry_bytes::<Sequence<S>>();
        if index >= MAX_SEQUENCES || !self.budget.take(bytes) {
            return Err(Fault::TooManySequences);
        }
        self.indexes.insert(id, index);
        self.all.push(Sequence {
            id,
            is_valid: false,
            clock: None,
            clocks: SequenceClocks::new(id),
            state: S::new(&self.budget),
        });
        Ok(index)
    }
}

impl<S: SequenceState> Sequence<S> {
    fn update(&mut self, packet: &PacketHeader<'_>, faults: FaultSink<'_>) -> Result<(), Fault> {
        if packet.is_cleared {
            self.is_valid = true;
            self.clock = None;
            self.state.restart();
        } else if !packet.loss.is_none() {
            self.is_valid = false;
            self.state.lose();
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
