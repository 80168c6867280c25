//! Sequences of packets: what earlier packets of a writer say for its later ones, what is lost with a lost packet, and
//! times converted to one clock. The rules are those of upstream's trace processor.
//!
//! A reader of some kind of packets brings a [`State`], which is what its packets leave behind, and is told by
//! [`Sequences::read`] whether a packet can be understood, and when it was.

mod clock;
mod fault;
mod packet;

use std::collections::BTreeMap;

use ferretto_proto::fields::trace_packet_defaults;
use ferretto_wire::Fields;

pub(crate) use self::clock::{BOOTTIME, Clocks, MONOTONIC, OF_A_SEQUENCE};
pub(crate) use self::fault::{Fault, Told};
pub(crate) use self::packet::Header;

use self::clock::SequenceClock;

/// Sequences beyond this number are left out, so that memory stays in proportion on any input.
const MAX_SEQUENCES: usize = 1 << 18;

/// What the packets of one sequence leave behind for later ones.
pub(crate) trait State: Default {
    /// What earlier packets said holds no more.
    fn restart(&mut self);

    /// Reads a `TracePacketDefaults`, which replaces what was before.
    fn set_defaults(&mut self, defaults: &[u8]);

    /// Reads an `InternedData`.
    fn intern(&mut self, interned: &[u8], told: Told<'_>);
}

/// All writers of a trace.
#[derive(Debug, Default)]
pub(crate) struct Sequences<S> {
    all: BTreeMap<u32, Sequence<S>>,
    clocks: Clocks,
}

/// One writer.
#[derive(Debug, Default)]
struct Sequence<S> {
    /// Whether everything since the last new start is known.
    is_valid: bool,
    /// The clock of packets that name none.
    clock: Option<u32>,
    /// Clocks of the sequence alone, by number.
    clocks: BTreeMap<u32, SequenceClock>,
    state: S,
}

/// What a packet that can be understood is to be understood by.
pub(crate) struct Context<'a, S> {
    pub(crate) state: &'a mut S,
    pub(crate) clocks: &'a Clocks,
    /// When the packet was written, in nanoseconds of boot time, if it says so.
    pub(crate) time: Option<Result<u64, Fault>>,
}

impl<S: State> Sequences<S> {
    /// The clocks that all sequences share.
    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Takes in what a packet says for others. `None` for a snapshot of clocks: whatever else is in it, a viewer does not
    /// look at.
    ///
    /// # Errors
    ///
    /// If nothing in the packet can be understood but what needs no sequence.
    pub(crate) fn read(
        &mut self,
        packet: &Header<'_>,
        told: Told<'_>,
    ) -> Result<Option<Context<'_, S>>, Fault> {
        if packet.sequence == 0 {
            if let Some(snapshot) = packet.snapshot {
                self.clocks.snapshot(snapshot, None, told);
            }
            return Err(Fault::NoSequence);
        }
        let is_full = self.all.len() >= MAX_SEQUENCES;
        if is_full && !self.all.contains_key(&packet.sequence) {
            return Err(Fault::TooManySequences);
        }
        let sequence = self.all.entry(packet.sequence).or_default();
        sequence.update(packet, told)?;
        if let Some(snapshot) = packet.snapshot {
            self.clocks
                .snapshot(snapshot, Some(&mut sequence.clocks), told);
            return Ok(None);
        }
        // Every packet moves a clock that counts from the one before.
        let clock = packet.clock.or(sequence.clock).unwrap_or(BOOTTIME);
        let clocks = &mut sequence.clocks;
        let to_boot = |value| self.clocks.packet_to_boot(value, clock, clocks);
        let time = packet.timestamp.map(to_boot);
        Ok(Some(Context {
            state: &mut sequence.state,
            clocks: &self.clocks,
            time,
        }))
    }
}

impl<S: State> Sequence<S> {
    fn update(&mut self, packet: &Header<'_>, told: Told<'_>) -> Result<(), Fault> {
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
            self.state.intern(interned, told);
        }
        Ok(())
    }
}
