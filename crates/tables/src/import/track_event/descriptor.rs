//! The content of track descriptors.

use ferretto_proto::fields::{
    chrome_thread_descriptor, process_descriptor, thread_descriptor, track_descriptor as field,
};
use ferretto_wire::Fields;

use super::super::context::Context;
use super::counter::Counter;
use crate::stats::Stat;
use crate::strings::StringId;

/// The content of a descriptor.
#[derive(Debug, Clone, Default)]
pub(super) struct Descriptor {
    pub(super) name: StringId,
    pub(super) description: StringId,
    pub(super) parent: u64,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
    pub(super) is_separate: bool,
    pub(super) counter: Option<Counter>,
    pub(super) is_state: bool,
    pub(super) ordering: Option<&'static str>,
    pub(super) processes_are_ordered: bool,
    pub(super) threads_are_ordered: bool,
    pub(super) rank: Option<i32>,
    pub(super) merging: Merging,
    pub(super) merge_key: StringId,
    /// Set if the tid is that of a sandbox, which other processes may have, too.
    pub(super) is_sandboxed: bool,
}

/// The merging of tracks with the same parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Merging {
    #[default]
    ByName = 0,
    Never = 1,
    ByKey = 2,
}

/// The encoded messages in a descriptor.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) thread: Option<&'a [u8]>,
    process: Option<&'a [u8]>,
    counter: Option<&'a [u8]>,
}

/// Returns a tid that no other thread has, for a thread in a sandbox.
fn unique_tid(pid: i64, tid: i64) -> i64 {
    pid << 32 | tid
}

impl Descriptor {
    /// Reads a `TrackDescriptor` without its messages, and its uuid.
    ///
    /// # Errors
    ///
    /// Returns the statistic to count.
    pub(super) fn read<'a>(
        cx: &mut Context,
        bytes: &'a [u8],
    ) -> Result<(u64, Self, Parts<'a>), Stat> {
        let (mut uuid, mut descriptor) = (None, Self::default());
        let mut parts = Parts::default();
        let (mut key, mut ordering) = (StringId::NULL, 0);
        for part in Fields::new(bytes).map_while(Result::ok) {
            let number = || part.as_u64().unwrap_or(0);
            let bytes = part.as_bytes().unwrap_or_default();
            match part.number {
                field::UUID => uuid = part.as_u64(),
                field::PARENT_UUID => descriptor.parent = number(),
                field::NAME | field::STATIC_NAME | field::ATRACE_NAME => {
                    descriptor.name = cx.store.strings.intern_bytes(bytes);
                }
                field::DESCRIPTION => {
                    descriptor.description = cx.store.strings.intern_bytes(bytes);
                }
                field::THREAD => parts.thread = Some(bytes),
                field::PROCESS => parts.process = Some(bytes),
                field::CHROME_THREAD => {
                    let number = chrome_thread_descriptor::IS_SANDBOXED_TID;
                    let flag = Fields::find(number, bytes);
                    descriptor.is_sandboxed = flag.is_some_and(|flag| flag.as_bool() == Some(true));
                }
                field::COUNTER => parts.counter = Some(bytes),
                field::STATE => descriptor.is_state = true,
                field::DISALLOW_MERGING_WITH_SYSTEM_TRACKS => {
                    descriptor.is_separate = number() != 0;
                }
                field::CHILD_ORDERING => ordering = number(),
                field::PROCESS_ORDERING => descriptor.processes_are_ordered = number() == 1,
                field::THREAD_ORDERING => descriptor.threads_are_ordered = number() == 1,
                field::SIBLING_ORDER_RANK => descriptor.rank = Some(number() as i32),
                field::SIBLING_MERGE_BEHAVIOR => {
                    descriptor.merging = match number() {
                        2 => Merging::Never,
                        3 => Merging::ByKey,
                        _ => Merging::ByName,
                    };
                }
                field::SIBLING_MERGE_KEY => key = cx.store.strings.intern_bytes(bytes),
                field::SIBLING_MERGE_KEY_INT => {
                    let text = format!("sibling_merge_key_int:{}", number());
                    key = cx.store.strings.intern(&text);
                }
                _ => {}
            }
        }
        let uuid = uuid.ok_or(Stat::track_descriptor_missing_uuid)?;
        descriptor.ordering = match ordering {
            0 => None,
            1 => Some("lexicographic"),
            2 => Some("chronological"),
            3 => Some("explicit"),
            _ => return Err(Stat::track_descriptor_invalid_child_ordering),
        };
        if descriptor.merging == Merging::ByKey {
            descriptor.merge_key = key;
        }
        Ok((uuid, descriptor, parts))
    }

    /// Reads the thread, process or counter of the track.
    ///
    /// # Errors
    ///
    /// Returns the statistic to count.
    pub(super) fn read_parts(&mut self, cx: &mut Context, parts: &Parts<'_>) -> Result<(), Stat> {
        let number = |bytes, number| Fields::find(number, bytes)?.as_i64();
        if let Some(thread) = parts.thread {
            let pid = number(thread, thread_descriptor::PID);
            let tid = number(thread, thread_descriptor::TID);
            let (Some(pid), Some(tid)) = (pid, tid) else {
                return Err(Stat::track_descriptor_thread_missing_pid_tid);
            };
            let pid = i64::from(pid as i32);
            let tid = if self.is_sandboxed {
                unique_tid(pid, tid)
            } else {
                tid
            };
            (self.pid, self.tid) = (Some(pid), Some(tid));
        } else if let Some(process) = parts.process {
            let pid = number(process, process_descriptor::PID);
            let pid = pid.ok_or(Stat::track_descriptor_process_missing_pid)?;
            self.pid = Some(i64::from(pid as u32));
        } else if let Some(counter) = parts.counter {
            self.counter = Some(Counter::read(cx, counter, &mut self.name));
        }
        Ok(())
    }

    /// Returns true if another descriptor with the same uuid may describe the same track.
    pub(super) fn is_same_track(&self, other: &Self) -> bool {
        let counter = |of: &Self| {
            let without_unit = |counter: Counter| Counter {
                unit: StringId::NULL,
                ..counter
            };
            of.counter.map(without_unit)
        };
        let rest = |of: &Self| {
            (
                of.parent,
                of.pid,
                of.tid,
                of.is_state,
                of.merging,
                of.merge_key,
            )
        };
        counter(self) == counter(other) && rest(self) == rest(other)
    }
}
