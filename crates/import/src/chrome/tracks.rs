//! The tracks of events.

use ferretto_format::Fnv1a;
use ferretto_formats::json::{Event, Number};
use ferretto_proto::fields::{
    process_descriptor, thread_descriptor, trace_packet, track_descriptor,
};
use ferretto_wire::Encoder;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ImportError;
use crate::writer::{FIRST_SEQUENCE, Writer};

/// Tracks that are known to be described; when there are more, they are described again.
const MAX_DESCRIBED: usize = 1 << 18;
/// Slices that are open at once on a thread, at most.
const MAX_DEPTH: usize = 4096;
/// Processes and threads with a name for a number get numbers from here on.
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
    /// The ends of the slices that are open, of a thread and beside it.
    open: FxHashMap<Thread, Vec<Vec<u64>>>,
    /// Processes and threads that have a name for a number.
    named: FxHashMap<(bool, Box<str>), i64>,
}

impl Tracks {
    /// Returns the thread of an event.
    pub(super) fn thread(&mut self, event: &Event<'_>) -> Thread {
        let pid = self.number(event.pid.as_ref(), true);
        match self.number(event.tid.as_ref(), false) {
            // Programs without threads leave them out.
            0 => Thread { pid, tid: pid },
            tid => Thread { pid, tid },
        }
    }

    fn number(&mut self, number: Option<&Number<'_>>, is_process: bool) -> i64 {
        match number {
            None => 0,
            Some(Number::Number(number)) => *number,
            Some(Number::Name(name)) => {
                let next = FIRST_NAMED + self.named.len() as i64;
                let key = (is_process, Box::from(&**name));
                *self.named.entry(key).or_insert(next)
            }
        }
    }

    /// Returns the name that stands for a number.
    fn name_for(&self, number: i64, is_process: bool) -> Option<&str> {
        if number < FIRST_NAMED {
            return None;
        }
        let mut named = self.named.iter();
        let found = named.find(|((of, _), its)| *of == is_process && **its == number);
        found.map(|((_, name), _)| &**name)
    }

    /// A slice begins of which the end is not known yet.
    pub(super) fn begin(&mut self, thread: Thread) {
        let lanes = self.open.entry(thread).or_insert_with(|| vec![Vec::new()]);
        if let Some(open) = lanes.first_mut()
            && open.len() < MAX_DEPTH
        {
            open.push(u64::MAX);
        }
    }

    /// Such a slice ends.
    pub(super) fn end(&mut self, thread: Thread) {
        if let Some(open) = self
            .open
            .get_mut(&thread)
            .and_then(|lanes| lanes.first_mut())
        {
            open.pop();
        }
    }

    /// Returns the first lane on which a slice is within those that are open. Lane 0 is the
    /// thread's own.
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

    /// Returns the track of a thread. Its description is written if it is new, or has a name.
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

    /// Returns the track of a process, likewise.
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

    /// Returns a track beside a thread's, for slices that overlap.
    pub(super) fn beside(
        &mut self,
        thread: Thread,
        lane: usize,
        ts: u64,
        writer: &mut Writer<'_>,
    ) -> Result<u64, ImportError> {
        let parent = uuid("thread", thread.pid, &thread.tid.to_ne_bytes());
        let uuid = uuid("beside", parent as i64, &lane.to_ne_bytes());
        if self.is_new(uuid) {
            describe(writer, ts, uuid, |out| {
                out.varint(track_descriptor::PARENT_UUID, parent);
                out.string(track_descriptor::NAME, "overlapping");
            })?;
        }
        Ok(uuid)
    }

    /// Returns the track of instants that are of no process.
    pub(super) fn global(&mut self, ts: u64, writer: &mut Writer<'_>) -> Result<u64, ImportError> {
        let uuid = uuid("global", 0, &[]);
        if self.is_new(uuid) {
            describe(writer, ts, uuid, |out| {
                out.string(track_descriptor::NAME, "Global instants");
            })?;
        }
        Ok(uuid)
    }

    /// Returns the track of a counter of a process.
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

/// Returns the number of a track.
fn uuid(kind: &str, owner: i64, what: &[u8]) -> u64 {
    let hash = Fnv1a::new().update(kind.as_bytes());
    hash.update(&owner.to_ne_bytes()).update(what).finish()
}
