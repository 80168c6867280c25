//! The tracks of events, and their descriptors.

use crate::json::Number;
use crate::sink::ThreadRef;
use ferretto_format::Fnv1a;
use ferretto_proto::fields::{
    process_descriptor, thread_descriptor, trace_packet, track_descriptor,
};
use ferretto_wire::Encoder;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::packets::ImportError;
use crate::packets::writer::{FIRST_SEQUENCE, Writer};

/// The number of described tracks remembered. Beyond it, tracks are described again.
const MAX_DESCRIBED: usize = 1 << 18;
/// The largest number of open slices of a thread.
const MAX_DEPTH: usize = 4096;
/// The first id given to processes and threads whose `pid` or `tid` is a name.
const FIRST_NAMED: i64 = 0x7000_0000;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) pid: i64,
    pub(super) tid: i64,
}

/// The tracks that events are on.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    described: FxHashSet<u64>,
    /// The end times of open slices, by thread and lane.
    open: FxHashMap<Thread, Vec<Vec<u64>>>,
    /// The ids given to processes (true) and threads whose `pid` or `tid` is a name.
    named: FxHashMap<(bool, Box<str>), i64>,
}

impl Tracks {
    /// Returns the ids of a thread.
    pub(super) fn thread(&mut self, thread: ThreadRef<'_>) -> Thread {
        let pid = self.number(thread.pid, true).unwrap_or(0);
        // Programs without threads leave them out.
        let tid = self.number(thread.tid, false).unwrap_or(pid);
        Thread { pid, tid }
    }

    /// Returns an id that packets can have. Those that the kernel's processes and threads cannot
    /// have get a substitute, as does 0, which readers take for a missing id.
    fn number(&mut self, number: Option<&Number<'_>>, is_process: bool) -> Option<i64> {
        let name = match number? {
            Number::Number(number) if *number > 0 => return Some((*number).into()),
            Number::Number(number) => number.to_string(),
            Number::Other(number) => number.to_string(),
            Number::Name(name) => name.to_string(),
        };
        let next = FIRST_NAMED + self.named.len() as i64;
        let key = (is_process, name.into_boxed_str());
        Some(*self.named.entry(key).or_insert(next))
    }

    /// Returns the name that an id was given for.
    fn name_for(&self, number: i64, is_process: bool) -> Option<&str> {
        if number < FIRST_NAMED {
            return None;
        }
        let mut named = self.named.iter();
        let found = named.find(|((of, _), its)| *of == is_process && **its == number);
        found.map(|((_, name), _)| &**name)
    }

    /// Opens a slice whose end is not known yet.
    pub(super) fn begin(&mut self, thread: Thread) {
        let lanes = self.open.entry(thread).or_insert_with(|| vec![Vec::new()]);
        if let Some(open) = lanes.first_mut()
            && open.len() < MAX_DEPTH
        {
            open.push(u64::MAX);
        }
    }

    /// Closes a slice that [`begin`](Self::begin) opened.
    pub(super) fn end(&mut self, thread: Thread) {
        if let Some(open) = self
            .open
            .get_mut(&thread)
            .and_then(|lanes| lanes.first_mut())
        {
            open.pop();
        }
    }

    /// Opens a complete slice on the first lane where it nests within the open slices, and returns
    /// that lane. Lane 0 is the thread's own track.
    pub(super) fn complete(&mut self, thread: Thread, ts: u64, end: u64) -> usize {
        let lanes = self.open.entry(thread).or_insert_with(|| vec![Vec::new()]);
        for (number, open) in lanes.iter_mut().enumerate() {
            while open.last().is_some_and(|end| *end <= ts) {
                open.pop();
            }
            if open.last().is_none_or(|last| *last >= end) {
                if open.len() < MAX_DEPTH {
                    open.push(end);
                }
                return number;
            }
        }
        if lanes.len() < MAX_DEPTH {
            lanes.push(vec![end]);
        }
        lanes.len() - 1
    }

    /// Returns the UUID of a thread's track. Writes its descriptor if it is new or `name` is given.
    pub(super) fn describe_thread(
        &mut self,
        thread: Thread,
        name: Option<&str>,
        ts: u64,
        writer: &mut Writer<'_>,
    ) -> Result<u64, ImportError> {
        let uuid = uuid("thread", thread.pid, &thread.tid.to_ne_bytes());
        if self.is_new(uuid) || name.is_some() {
            self.describe_process(thread.pid, None, ts, writer)?;
            let name = name.or(self.name_for(thread.tid, false));
            describe(writer, ts, uuid, |out| {
                out.nested(track_descriptor::THREAD, |out| {
                    out.int(thread_descriptor::PID, thread.pid);
                    out.int(thread_descriptor::TID, thread.tid);
                    if let Some(name) = name {
                        out.string(thread_descriptor::THREAD_NAME, name);
                    }
                });
            })?;
        }
        Ok(uuid)
    }

    /// Returns the UUID of a process's track. Writes its descriptor if it is new or `name` is
    /// given.
    pub(super) fn describe_process(
        &mut self,
        pid: i64,
        name: Option<&str>,
        ts: u64,
        writer: &mut Writer<'_>,
    ) -> Result<u64, ImportError> {
        let uuid = uuid("process", pid, &[]);
        if self.is_new(uuid) || name.is_some() {
            let name = name.or(self.name_for(pid, true));
            describe(writer, ts, uuid, |out| {
                out.nested(track_descriptor::PROCESS, |out| {
                    out.int(process_descriptor::PID, pid);
                    if let Some(name) = name {
                        out.string(process_descriptor::PROCESS_NAME, name);
                    }
                });
            })?;
        }
        Ok(uuid)
    }

    /// Returns the UUID of a track for slices that overlap others of a thread.
    pub(super) fn overlapping(
        &mut self,
        thread: Thread,
        lane: usize,
        ts: u64,
        writer: &mut Writer<'_>,
    ) -> Result<u64, ImportError> {
        let parent = uuid("thread", thread.pid, &thread.tid.to_ne_bytes());
        let uuid = uuid("overlapping", parent as i64, &lane.to_ne_bytes());
        if self.is_new(uuid) {
            describe(writer, ts, uuid, |out| {
                out.varint(track_descriptor::PARENT_UUID, parent);
                out.string(track_descriptor::NAME, "overlapping");
            })?;
        }
        Ok(uuid)
    }

    /// Returns the UUID of the track of global instants.
    pub(super) fn global(&mut self, ts: u64, writer: &mut Writer<'_>) -> Result<u64, ImportError> {
        let uuid = uuid("global", 0, &[]);
        if self.is_new(uuid) {
            describe(writer, ts, uuid, |out| {
                out.string(track_descriptor::NAME, "Global instants");
            })?;
        }
        Ok(uuid)
    }

    /// Returns the UUID of the track of a process's counter.
    pub(super) fn counter(
        &mut self,
        pid: i64,
        name: &str,
        ts: u64,
        writer: &mut Writer<'_>,
    ) -> Result<u64, ImportError> {
        let uuid = uuid("counter", pid, name.as_bytes());
        if self.is_new(uuid) {
            let parent = self.describe_process(pid, None, ts, writer)?;
            describe(writer, ts, uuid, |out| {
                out.varint(track_descriptor::PARENT_UUID, parent);
                out.string(track_descriptor::NAME, name);
                out.nested(track_descriptor::COUNTER, |_| {});
            })?;
        }
        Ok(uuid)
    }

    fn is_new(&mut self, uuid: u64) -> bool {
        if self.described.len() > MAX_DESCRIBED {
            self.described.clear();
        }
        self.described.insert(uuid)
    }
}

fn describe(
    writer: &mut Writer<'_>,
    ts: u64,
    uuid: u64,
    write: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
) -> Result<(), ImportError> {
    writer.packet(FIRST_SEQUENCE, |packet| {
        packet.varint(trace_packet::TIMESTAMP, ts);
        packet.nested(trace_packet::TRACK_DESCRIPTOR, |out| {
            out.varint(track_descriptor::UUID, uuid);
            write(out);
        });
    })
}

/// Derives the UUID of a track.
fn uuid(kind: &str, owner: i64, what: &[u8]) -> u64 {
    let hash = Fnv1a::new().update(kind.as_bytes());
    hash.update(&owner.to_ne_bytes()).update(what).finish()
}
