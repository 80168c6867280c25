//! Processes and threads, and their names.

use ferretto_format::Fnv1a;
use ferretto_proto::fields::process_tree::{process, thread};
use ferretto_proto::fields::{process_tree, trace_packet};
use ferretto_wire::Encoder;
use rustc_hash::FxHashMap;

use crate::packets::ImportError;
use crate::packets::writer::{FIRST_SEQUENCE, Writer};

/// The number of threads remembered. Beyond it, all names are written again.
const MAX_KNOWN: usize = 1 << 18;

/// The tasks that the trace describes already.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By thread: its process, and a hash of its name.
    known: FxHashMap<u32, (u32, u64)>,
}

impl Tasks {
    /// Writes the name of a thread if it is new, and of its process if it is the main thread.
    pub(super) fn name(
        &mut self,
        writer: &mut Writer<'_>,
        ts: u64,
        (pid, tid): (u32, u32),
        name: &[u8],
    ) -> Result<(), ImportError> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        let is = (pid, Fnv1a::hash(name));
        if self.known.insert(tid, is) == Some(is) {
            return Ok(());
        }
        writer.packet(FIRST_SEQUENCE, |packet| {
            time(packet, ts);
            packet.nested(trace_packet::PROCESS_TREE, |tree| {
                if pid == tid {
                    tree.nested(process_tree::PROCESSES, |out| {
                        out.varint(process::PID, pid.into());
                        out.bytes(process::CMDLINE, name);
                        out.bool(process::CMDLINE_IS_COMM, true);
                    });
                }
                tree.nested(process_tree::THREADS, |out| {
                    out.varint(thread::TID, tid.into());
                    out.varint(thread::TGID, pid.into());
                    out.bytes(thread::NAME, name);
                });
            });
        })
    }

    /// Writes the parent of a process.
    pub(super) fn fork(
        &mut self,
        writer: &mut Writer<'_>,
        ts: u64,
        (pid, parent): (u32, u32),
    ) -> Result<(), ImportError> {
        writer.packet(FIRST_SEQUENCE, |packet| {
            time(packet, ts);
            packet.nested(trace_packet::PROCESS_TREE, |tree| {
                tree.nested(process_tree::PROCESSES, |out| {
                    out.varint(process::PID, pid.into());
                    out.varint(process::PPID, parent.into());
                });
            });
        })
    }

    /// Forgets a thread that has ended: its id may be reused.
    pub(super) fn exit(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}

/// Writes the time of a record. Records of tasks that perf found when it started have the time 0,
/// at which no event took place.
fn time(packet: &mut Encoder<'_, Vec<u8>>, ts: u64) {
    if ts != 0 {
        packet.varint(trace_packet::TIMESTAMP, ts);
    }
}
