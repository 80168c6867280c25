//! Generated large traces: the same bytes for the same kind, size and seed.
//!
//! The layout is that of real recordings: kernel events in bundles per CPU, other packets as
//! sequences with interned names, clock deltas and default values.

mod callstacks;
mod sched;
mod track_events;

use std::io::{self, Write};

use ferretto_proto::fields::clock_snapshot::clock;
use ferretto_proto::fields::{clock_snapshot, process_tree, trace_packet};
use ferretto_wire::Encoder;

use sched::Calls;

/// An encoder of one packet.
type Packet<'a> = Encoder<'a, Vec<u8>>;

/// The time of the first event, on the boot clock.
const BEGIN: u64 = 1_000_000_000_000;
/// The field of a trace that contains a packet.
const PACKET: u32 = 1;
/// The size of the write buffer.
const PORTION: usize = 1 << 18;

/// The contents of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Scheduling events of eight CPUs, in the compact form.
    Sched,
    /// The same with the system calls in which threads wait for each other, as `record --why`
    /// records them.
    Waits,
    /// Slices with arguments, instants, counters and flows of sixteen threads.
    TrackEvents,
    /// Samples of a profiler, some of them with a new callstack.
    Callstacks,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Sched,
        Self::Waits,
        Self::TrackEvents,
        Self::Callstacks,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Waits => "waits",
            Self::TrackEvents => "track-events",
            Self::Callstacks => "callstacks",
        }
    }

    /// Writes a trace of this kind, slightly longer than `bytes`. The seed determines its contents.
    ///
    /// # Errors
    ///
    /// Fails if `output` cannot be written.
    pub fn write(self, bytes: u64, seed: u64, output: &mut dyn Write) -> io::Result<()> {
        let mut trace = Trace::new(output, bytes, seed);
        trace.packet(|packet| {
            packet.varint(trace_packet::TIMESTAMP, BEGIN);
            packet.nested(trace_packet::CLOCK_SNAPSHOT, |snapshot| {
                for (id, offset) in [(6, 0), (1, 1_700_000_000_000_000_000), (3, 0)] {
                    write_clock(snapshot, id, BEGIN + offset);
                }
            });
        })?;
        match self {
            Self::Sched => sched::write(&mut trace, None)?,
            Self::Waits => sched::write(&mut trace, Some(Calls::default()))?,
            Self::TrackEvents => track_events::write(&mut trace)?,
            Self::Callstacks => callstacks::write(&mut trace)?,
        }
        trace.finish()
    }
}

fn write_clock(snapshot: &mut Packet<'_>, id: u64, time: u64) {
    snapshot.nested(clock_snapshot::CLOCKS, |entry| {
        entry.varint(clock::CLOCK_ID, id);
        entry.varint(clock::TIMESTAMP, time);
    });
}

/// Writes a process tree of processes with `threads` threads each. Thread ids count up from the
/// process id; `first` is the first of all.
fn write_processes(
    trace: &mut Trace<'_>,
    first: u64,
    processes: u64,
    threads: u64,
) -> io::Result<()> {
    trace.packet(|packet| {
        packet.varint(trace_packet::TIMESTAMP, BEGIN);
        packet.nested(trace_packet::PROCESS_TREE, |tree| {
            for number in 0..processes {
                let pid = first + number * threads;
                tree.nested(process_tree::PROCESSES, |process| {
                    process.varint(process_tree::process::PID, pid);
                    process.varint(process_tree::process::PPID, 1);
                    process.string(
                        process_tree::process::CMDLINE,
                        &format!("/usr/bin/program-{number}"),
                    );
                });
                for tid in pid..pid + threads {
                    tree.nested(process_tree::THREADS, |thread| {
                        thread.varint(process_tree::thread::TID, tid);
                        thread.varint(process_tree::thread::TGID, pid);
                        thread.string(process_tree::thread::NAME, &format!("thread-{tid}"));
                    });
                }
            }
        });
    })
}

/// A trace being written.
struct Trace<'a> {
    output: &'a mut dyn Write,
    portion: Vec<u8>,
    written: u64,
    bytes: u64,
    seed: u64,
}

impl<'a> Trace<'a> {
    fn new(output: &'a mut dyn Write, bytes: u64, seed: u64) -> Self {
        Self {
            output,
            portion: Vec::with_capacity(2 * PORTION),
            written: 0,
            bytes,
            seed,
        }
    }

    /// Returns the random numbers for a kind of trace.
    fn numbers(&self, kind: u64) -> Numbers {
        Numbers(kind.wrapping_add(self.seed << 8))
    }

    /// Returns true if the trace has its size.
    fn is_full(&self) -> bool {
        self.written + self.portion.len() as u64 >= self.bytes
    }

    fn packet(&mut self, write: impl FnOnce(&mut Packet<'_>)) -> io::Result<()> {
        Encoder::new(&mut self.portion).nested(PACKET, write);
        if self.portion.len() >= PORTION {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.portion)?;
        self.written += self.portion.len() as u64;
        self.portion.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.output.flush()
    }
}

/// Reproducible pseudo-random numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number below `limit`, more often a small one.
    fn skewed_below(&mut self, limit: u64) -> u64 {
        let range = self.below(limit) + 1;
        self.below(range)
    }

    /// Returns true in `part` of a hundred cases.
    fn percent(&mut self, part: u64) -> bool {
        self.below(100) < part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_reproducible_and_has_the_requested_size() {
        for kind in Kind::ALL {
            let [first, second, third] = [0, 0, 1].map(|seed| {
                let mut bytes = Vec::new();
                kind.write(300_000, seed, &mut bytes)
                    .expect("memory takes it");
                bytes
            });
            assert!(first == second, "{}", kind.name());
            assert!(first != third, "{}", kind.name());
            assert!((300_000..400_000).contains(&first.len()), "{}", first.len());
        }
    }
}
