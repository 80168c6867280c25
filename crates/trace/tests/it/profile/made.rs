//! A builder of traces as the profiler writes them.

use ferretto_trace::profile::{Profile, Sample, Selection, StackCounts, read_profile};
use ferretto_trace::{TraceReader, profile::ProfileReader};
use ferretto_wire::{Encoder, encode};

pub(crate) type Packet<'a> = Encoder<'a, Vec<u8>>;

/// The sequence of the profiler.
pub(crate) const SEQUENCE: u64 = 7;
/// The start time of the trace, on the clock of samples (MONOTONIC_RAW) and on that of the trace.
pub(crate) const RAW: u64 = 1_000;
pub(crate) const BOOT: u64 = 5_000_000;

pub(crate) const CLEARED: u64 = 1;
pub(crate) const NEEDS_STATE: u64 = 2;

/// A trace under construction.
#[derive(Default)]
pub(crate) struct Trace(pub(crate) Vec<u8>);

impl Trace {
    pub(crate) fn packet(mut self, write: impl FnOnce(&mut Packet<'_>)) -> Self {
        Encoder::new(&mut self.0).bytes(1, &encode(write));
        self
    }

    /// Creates a trace with clocks, a process tree and the defaults of a 100 Hz profiler.
    pub(crate) fn begun() -> Self {
        Self::default().clocks().processes().packet(|p| {
            p.varint(8, BOOT);
            p.varint(58, 6);
            p.varint(10, SEQUENCE);
            p.varint(13, CLEARED);
            p.varint(42, 1);
            p.nested(59, |defaults| {
                defaults.varint(58, 5);
                defaults.nested(12, |perf| {
                    perf.nested(1, |timebase| {
                        timebase.varint(2, 100);
                        timebase.varint(4, 1);
                    });
                });
            });
        })
    }

    pub(crate) fn clocks(self) -> Self {
        self.packet(|p| {
            p.varint(10, 1);
            p.nested(6, |snapshot| {
                for (clock, time) in [(6, BOOT), (5, RAW), (1, 99)] {
                    snapshot.nested(1, |reading| {
                        reading.varint(1, clock);
                        reading.varint(2, time);
                    });
                }
            });
        })
    }

    pub(crate) fn processes(self) -> Self {
        self.packet(|p| {
            p.varint(10, 2);
            p.nested(2, |tree| {
                tree.nested(1, |process| {
                    process.varint(1, 100);
                    process.string(3, "/usr/bin/server");
                    process.string(3, "--port");
                });
                for (tid, name) in [(100, "server"), (101, "worker;1")] {
                    tree.nested(2, |thread| {
                        thread.varint(1, tid);
                        thread.string(2, name);
                        thread.varint(3, 100);
                    });
                }
            });
        })
    }

    /// Adds interned data: a program, a library, the kernel and three callstacks.
    ///
    /// | callstack | frames, the outermost first |
    /// |---|---|
    /// | 10 | main, work |
    /// | 11 | main, work, do_syscall (kernel) |
    /// | 12 | ERROR MEMORY_INVALID, a frame of the library without a name |
    pub(crate) fn interned(self) -> Self {
        self.packet(|p| {
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(12, |data| {
                let text = |data: &mut Packet<'_>, table, iid, text: &[u8]| {
                    data.nested(table, |entry| {
                        entry.varint(1, iid);
                        entry.bytes(2, text);
                    });
                };
                for table in [16, 17, 5] {
                    text(data, table, 0, b"");
                }
                text(data, 16, 2, b"\x01\x02\xff");
                for (iid, part) in [(3, "usr"), (4, "bin"), (5, "server"), (6, "libfoo.so")] {
                    text(data, 17, iid, part.as_bytes());
                }
                text(data, 17, 7, b"kernel");
                text(data, 16, 1, b"");
                for (iid, name) in [
                    (20, "main"),
                    (21, "_ZN6server4work17h0123456789abcdefE"),
                    (22, "do_syscall"),
                    (23, "ERROR MEMORY_INVALID"),
                ] {
                    text(data, 5, iid, name.as_bytes());
                }
                mapping(data, 2, 2, &[3, 4, 5], 0x40_0000);
                mapping(data, 3, 1, &[3, 6], 0x7f00_0000);
                data.nested(19, |entry| {
                    entry.varint(1, 4);
                    entry.varint(2, 1);
                    entry.varint(6, u64::MAX);
                    entry.varint(7, 7);
                });
                data.nested(19, |entry| entry.varint(1, 5));
                for (iid, function, mapping, rel_pc) in [
                    (30, 20, 2, 0x100),
                    (31, 21, 2, 0x200),
                    (32, 22, 4, 0),
                    (33, 23, 5, 0),
                    (34, 0, 3, 0x1234),
                ] {
                    data.nested(6, |frame| {
                        frame.varint(1, iid);
                        frame.varint(2, function);
                        frame.varint(3, mapping);
                        frame.varint(4, rel_pc);
                    });
                }
                for (iid, frames) in [(10, &[30, 31][..]), (11, &[30, 31, 32]), (12, &[33, 34])] {
                    data.nested(7, |stack| {
                        stack.varint(1, iid);
                        frames.iter().for_each(|frame| stack.varint(2, *frame));
                    });
                }
            });
        })
    }

    /// Adds a sample of thread `tid` of process 100 on CPU 1, `after` nanoseconds after the start.
    /// The counter has the same value.
    pub(crate) fn sample(self, after: u64, tid: u64, stack: u64) -> Self {
        self.perf(after, |sample| {
            sample.varint(1, 1);
            sample.varint(2, 100);
            sample.varint(3, tid);
            sample.varint(5, 2);
            sample.varint(6, after);
            sample.varint(4, stack);
            if stack == 12 {
                sample.varint(16, 2);
            }
        })
    }

    pub(crate) fn perf(self, after: u64, write: impl FnOnce(&mut Packet<'_>)) -> Self {
        self.packet(|p| {
            p.varint(8, RAW + after);
            p.varint(10, SEQUENCE);
            p.varint(13, NEEDS_STATE);
            p.nested(66, write);
        })
    }

    /// Adds symbols of the library.
    pub(crate) fn symbols(self) -> Self {
        self.packet(|p| {
            p.nested(61, |module| {
                module.string(1, "/usr/libfoo.so");
                module.nested(3, |address| {
                    address.varint(1, 0x1234);
                    for (name, line) in [("inner", 7), ("outer", 70)] {
                        address.nested(2, |at| {
                            at.string(1, name);
                            at.string(2, "foo.c");
                            at.varint(3, line);
                        });
                    }
                });
            });
        })
    }

    pub(crate) fn read(&self) -> (Profile, StackCounts) {
        self.select(Selection::default())
    }

    pub(crate) fn select(&self, selection: Selection) -> (Profile, StackCounts) {
        read_profile(&self.0[..], selection).expect("it is a trace")
    }

    pub(crate) fn samples(&self) -> (Vec<Sample>, Profile) {
        let mut packets = TraceReader::new(&self.0[..]);
        let mut reader = ProfileReader::new();
        let mut samples = Vec::new();
        while let Some(packet) = packets.next_packet().expect("it is a trace") {
            samples.extend(reader.add(packet.bytes));
        }
        (samples, reader.finish())
    }
}

fn mapping(data: &mut Packet<'_>, iid: u64, build_id: u64, path: &[u64], start: u64) {
    data.nested(19, |entry| {
        entry.varint(1, iid);
        entry.varint(2, build_id);
        entry.varint(4, start);
        entry.varint(5, start + 0x10000);
        entry.varint(8, 0x1000);
        entry.varint(6, 0x2000);
        path.iter().for_each(|part| entry.varint(7, *part));
    });
}

/// Returns the names of the functions of a callstack, the outermost first.
pub(crate) fn names(profile: &Profile, sample: &Sample) -> Vec<String> {
    let stack = sample.stack.expect("it has a callstack");
    let functions = profile.functions(stack);
    let name = |line: ferretto_trace::profile::Line| {
        let function = profile.function(line.function).expect("it is known");
        function.name.to_string()
    };
    functions.map(name).collect()
}
