//! Cutting the part of a trace between two times.
//!
//! The trace is read twice: first for the state at the start of the part, then for its packets.
//! This is necessary because packets are not ordered by time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, Write};

use ferretto_proto::fields::{trace_packet as kind, tracing_service_event as service};
use ferretto_trace::{Bounds, Limits, TraceReader};
use ferretto_wire::Fields;

use crate::bundle::Bundle;
use crate::kinds;
use crate::names::Names;
use crate::state::events::duration;
use crate::state::{State, restarting};
use crate::write::{
    EditError, Taken, begin_part, standalone, state_only, window_packet, write_packet,
};

/// The time after the part for which clock snapshots are kept, in nanoseconds.
const SNAPSHOTS_BEHIND: u64 = 20_000_000_000;

/// A time window in a trace, in nanoseconds of boot time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The start time.
    pub from: u64,
    /// The end time (exclusive).
    pub to: u64,
}

/// Returns the times of the first and the last event of a trace, in nanoseconds of boot time.
///
/// # Errors
///
/// Fails if the trace cannot be read, or has no events.
pub fn extent(trace: impl Read, limits: Limits) -> Result<Window, EditError> {
    let bounds = Bounds::read(trace, limits).map_err(EditError::Read)?;
    let bounds = bounds.ok_or(EditError::Nothing(0, 0))?;
    Ok(Window {
        from: bounds.start,
        to: bounds.end.saturating_add(1),
    })
}

/// Writes the part of a trace within a window, with a new trace id.
///
/// # Errors
///
/// Fails if the trace cannot be read, the window contains no events, or the part cannot be written.
pub fn cut<R: Read + Seek>(
    mut trace: R,
    window: Window,
    limits: Limits,
    uuid: [u8; 16],
    mut out: impl Write,
) -> Result<Taken, EditError> {
    let unreadable = |source| EditError::Read(ferretto_trace::ReadError::Io { offset: 0, source });
    trace.rewind().map_err(unreadable)?;
    let budget = limits.budget();
    let mut state = State::new(&budget);
    TraceReader::with_limits(&mut trace, limits)
        .read_all(|packet| drop(state.add(packet.bytes, window.from)))
        .map_err(EditError::Read)?;
    let (first, latest) = (state.first.unwrap_or(0), state.latest);
    if window.from >= window.to || window.from > latest || window.to <= first {
        return Err(EditError::Nothing(first, latest));
    }
    let mut names = Names::default();
    let (begun, _) = begin_part(&mut out, uuid, &mut state, Some(window.from), &mut names)?;
    let (from, to) = (
        window.from.max(first),
        window.to.min(latest.saturating_add(1)),
    );
    write_packet(&mut out, &window_packet(from, to))?;
    let mut cutter = Cutter {
        window,
        out: &mut out,
        described: std::mem::take(&mut state.descriptors),
        begun,
        complete: BTreeSet::new(),
        whole: state,
        names,
        state: State::of_sequences(&budget),
        packets: 0,
        is_over: false,
    };
    trace.rewind().map_err(unreadable)?;
    let mut failed = None;
    let damage = TraceReader::with_limits(&mut trace, limits)
        .try_read_all(|packet| {
            failed = cutter.add(packet.bytes).err();
            failed.is_none()
        })
        .map_err(EditError::Read)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let taken = Taken {
        packets: cutter.packets,
        damage,
        left_out: budget.refused(),
    };
    out.flush()?;
    Ok(taken)
}

struct Cutter<'a, W: Write> {
    window: Window,
    out: &'a mut W,
    /// The state of the whole trace, for the clocks of machines.
    whole: State,
    names: Names,
    /// The descriptors that were written.
    described: BTreeMap<(u32, u32, u64), Vec<u8>>,
    /// The sequences whose initial state was written.
    begun: BTreeSet<u32>,
    /// The sequences whose state in the part is complete for later packets.
    complete: BTreeSet<u32>,
    state: State,
    packets: u64,
    /// True after the end of the recording.
    is_over: bool,
}

impl<W: Write> Cutter<'_, W> {
    fn add(&mut self, packet: &[u8]) -> io::Result<()> {
        // This state only tracks sequences and clocks.
        let seen = self.state.add(packet, 0);
        let sequence = seen.writer.sequence;
        let on = |host| self.whole.on_machine(seen.writer.machine, host);
        let (from, to) = (on(self.window.from), on(self.window.to));
        let latest = on(self.state.latest);
        if let Some((boot, false)) = seen.snapshot {
            let is_near = |boot: u64| boot >= from && boot < to.saturating_add(SNAPSHOTS_BEHIND);
            return if boot.is_some_and(is_near) {
                self.write(packet)
            } else {
                Ok(())
            };
        }
        let mut bundle = None;
        let mut is_kept = false;
        for field in Fields::new(packet).map_while(Result::ok) {
            let bytes = field.as_bytes().unwrap_or_default();
            match field.number {
                number if kinds::is_descriptor(number) => {
                    let (of, again) = State::description(seen.writer, &field, bytes);
                    if self.described.get(&of) != Some(&again) {
                        if number == kind::THREAD_DESCRIPTOR && seen.is_cleared {
                            self.write(&restarting(&again))?;
                        } else {
                            self.write(&again)?;
                        }
                        self.described.insert(of, again);
                    }
                }
                kind::FTRACE_EVENTS => {
                    let read = Bundle::read(bytes, seen.writer.machine, self.state.clocks());
                    bundle = read.between(from, to);
                    is_kept |= bundle.is_some();
                }
                kind::MODULE_SYMBOLS => {
                    if let Some(names) = self.names.of_samples(packet) {
                        self.write(&names)?;
                    }
                }
                kind::SERVICE_EVENT => is_kept |= self.is_about_recording(bytes),
                kind::TRACE_UUID | kind::SYNCHRONIZATION_MARKER => {}
                number if kinds::is_about_all(number) => {}
                number if kinds::is_about_end(number) => is_kept = true,
                kind::TRACK_EVENT => {
                    let until = |time: u64| time.saturating_add(duration(bytes));
                    let is_within = |time: u64| time < to && (time >= from || until(time) > from);
                    is_kept |= seen.time.is_none_or(is_within);
                }
                number if seen.content.contains(&number) => {
                    // A packet without a timestamp gets the time of the previous one.
                    let time = seen.time.unwrap_or(latest);
                    is_kept |= time >= from && time < to;
                }
                _ => {}
            }
        }
        if is_kept {
            if !seen.is_cleared && seen.needs_state && self.complete.insert(sequence) {
                let is_written = self.begun.remove(&sequence);
                if !is_written && let Some(state) = self.state.state_now(&seen.writer) {
                    self.write(&state)?;
                }
            } else if seen.is_cleared {
                self.complete.insert(sequence);
                self.begun.remove(&sequence);
            }
            return self.write(&standalone(packet, &seen, bundle.as_deref()));
        }
        if !seen.concerns_sequence || !self.complete.contains(&sequence) {
            return Ok(());
        }
        if seen.time.is_some_and(|time| time >= to) {
            self.complete.remove(&sequence);
            return Ok(());
        }
        self.write(&state_only(packet, &seen))
    }

    /// Returns true for service events about the recording as a whole. Events of flushes are
    /// dropped because readers sort the packets between them, and the part has a different order.
    fn is_about_recording(&mut self, event: &[u8]) -> bool {
        let has = |number| Fields::find(number, event).is_some();
        self.is_over |= has(service::TRACING_DISABLED);
        if has(service::READ_TRACING_BUFFERS_COMPLETED) {
            self.is_over
        } else {
            !has(service::FLUSH_STARTED) && !has(service::ALL_DATA_SOURCES_FLUSHED)
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.packets += 1;
        self.names.add(packet);
        write_packet(self.out, packet).map(drop)
    }
}
