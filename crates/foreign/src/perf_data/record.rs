//! Records of the kernel. Their fields depend on the settings of their event.

use std::collections::HashMap;

use ferretto_format::CpuMode;
use ferretto_format::perf_record::{Bytes, Words, kind, misc, until_zero};

use super::header::Event;

/// Fields of samples.
mod field {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const BRANCH_STACK: u64 = 1 << 11;
    pub(super) const REGS_USER: u64 = 1 << 12;
    pub(super) const STACK_USER: u64 = 1 << 13;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// Fields of counter values.
mod read_format {
    pub(super) const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub(super) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(super) const ID: u64 = 1 << 2;
    pub(super) const GROUP: u64 = 1 << 3;
    pub(super) const LOST: u64 = 1 << 4;
}

/// Settings of branch stacks.
mod branches {
    pub(super) const HARDWARE_INDEX: u64 = 1 << 17;
    pub(super) const COUNTERS: u64 = 1 << 19;
}

/// A record. Times are in nanoseconds on the clock of `perf`; 0 if the record has none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A thread has a new name.
    Comm {
        /// The time.
        time: u64,
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Set if the process executed a program, which replaces its mappings.
        is_exec: bool,
        /// The name.
        name: &'a [u8],
    },
    /// Code is mapped into a process.
    Mapping(Mapping<'a>),
    /// A thread or process has started.
    Fork(Task),
    /// A thread or process has ended.
    Exit(Task),
    /// The kernel lost records.
    Lost {
        /// The time.
        time: u64,
        /// Their number.
        count: u64,
    },
    /// A record of another kind.
    Other {
        /// The number of the kind.
        kind: u32,
    },
    /// A record that lacks some of its fields.
    Malformed,
}

/// A sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The time.
    pub time: u64,
    /// The process and the thread, if recorded.
    pub task: Option<(u32, u32)>,
    /// The CPU, if recorded.
    pub cpu: Option<u32>,
    /// The mode of the CPU.
    pub mode: CpuMode,
    /// The index of the event in the file.
    pub event: usize,
    /// The number of events since the last sample, if recorded.
    pub period: Option<u64>,
    /// The instruction pointer, if recorded.
    pub address: Option<u64>,
    /// The callstack, the innermost address first.
    pub chain: Chain<'a>,
    /// Set if samples of the event have a copy of the user stack to unwind.
    pub has_stack: bool,
    /// The state of the program, if it was recorded.
    pub user: Option<UserState<'a>>,
}

/// The registers of a program and a copy of the top of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserState<'a> {
    /// The kind of process: 1 has 32 bits, 2 has 64 bits.
    pub abi: u64,
    /// The bit set of the registers.
    pub mask: u64,
    /// The registers, one for each bit, from the lowest.
    registers: Words<'a>,
    /// The stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// Set if the copy has the size that was asked for, so that the stack probably continues.
    pub is_full: bool,
}

impl UserState<'_> {
    /// Returns the registers, one for each bit of the mask, from the lowest.
    pub fn registers(&self) -> Vec<u64> {
        self.registers.iter().collect()
    }
}

/// The callchain of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chain<'a>(Words<'a>);

impl<'a> Chain<'a> {
    /// Returns the addresses with their modes, the innermost first.
    pub fn addresses(self, mode: CpuMode) -> impl Iterator<Item = (CpuMode, u64)> + 'a {
        let mut mode = mode;
        self.0
            .iter()
            .filter_map(move |address| match CpuMode::of_context(address) {
                Some(context) => {
                    mode = context;
                    None
                }
                None => Some((mode, address)),
            })
    }
}

/// A mapping of executable code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The time.
    pub time: u64,
    /// The process; `None` for the kernel.
    pub pid: Option<u32>,
    /// The mode of the CPU that executes it.
    pub mode: CpuMode,
    /// The first address.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The offset in the file.
    pub offset: u64,
    /// The path of the file, or a name such as `[vdso]`.
    pub path: &'a [u8],
    /// The build id of the file; empty if it is not recorded.
    pub build_id: &'a [u8],
    /// The inode of the file, if it is recorded.
    pub inode: Option<u64>,
}

/// The start or end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The time.
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The process of the parent.
    pub parent_pid: u32,
}

/// Parses a record. Returns `None` if it lacks some of its fields.
pub(super) fn parse<'a>(
    record: &'a [u8],
    events: &[Event],
    by_id: &HashMap<u64, usize>,
) -> Option<Record<'a>> {
    let mut bytes = Bytes::new(record);
    let (kind, flags, _size) = (bytes.u32()?, bytes.u16()?, bytes.u16()?);
    if kind == kind::SAMPLE {
        let event = event_of_sample(bytes, events, by_id)?;
        let of = events.get(event)?;
        return sample(bytes, of, event, flags).map(Record::Sample);
    }
    let time = || time_at_end(record, events.first()).unwrap_or(0);
    Some(match kind {
        kind::MMAP => Record::Mapping(mapping(bytes, flags, time(), false)?),
        kind::MMAP2 => Record::Mapping(mapping(bytes, flags, time(), true)?),
        kind::COMM => Record::Comm {
            time: time(),
            pid: bytes.u32()?,
            tid: bytes.u32()?,
            is_exec: flags & misc::COMM_EXEC != 0,
            name: until_zero(bytes.rest()),
        },
        kind::FORK => Record::Fork(task(bytes)?),
        kind::EXIT => Record::Exit(task(bytes)?),
        kind::LOST => {
            bytes.u64()?;
            Record::Lost {
                time: time(),
                count: bytes.u64()?,
            }
        }
        kind::LOST_SAMPLES => Record::Lost {
            time: time(),
            count: bytes.u64()?,
        },
        kind => Record::Other { kind },
    })
}

fn task(mut bytes: Bytes<'_>) -> Option<Task> {
    let (pid, parent_pid) = (bytes.u32()?, bytes.u32()?);
    let (tid, _parent_tid) = (bytes.u32()?, bytes.u32()?);
    Some(Task {
        time: bytes.u64()?,
        pid,
        tid,
        parent_pid,
    })
}

fn mapping<'a>(
    mut bytes: Bytes<'a>,
    flags: u16,
    time: u64,
    is_second: bool,
) -> Option<Mapping<'a>> {
    let (pid, _tid) = (bytes.u32()?, bytes.u32()?);
    let (start, length, offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (mut build_id, mut inode) = (&[][..], None);
    if is_second {
        // Device and inode, or the build id; then protection and flags.
        let file = bytes.take(24)?;
        if flags & misc::MMAP_BUILD_ID != 0 {
            let size = usize::from(*file.first()?);
            build_id = file.get(4..4 + size.min(20))?;
        } else {
            inode = Bytes::new(file.get(8..)?).u64().filter(|inode| *inode != 0);
        }
        bytes.take(8)?;
    }
    Some(Mapping {
        time,
        pid: (pid != u32::MAX).then_some(pid),
        mode: CpuMode::of_record(flags),
        start,
        length,
        offset,
        path: until_zero(bytes.rest()),
        build_id,
        inode,
    })
}

/// Returns the index of a sample's event. The id has the same position in the samples of all
/// events.
fn event_of_sample(
    mut bytes: Bytes<'_>,
    events: &[Event],
    by_id: &HashMap<u64, usize>,
) -> Option<usize> {
    if events.len() == 1 {
        return Some(0);
    }
    let fields = events.first()?.attr.sample_type;
    if fields & field::IDENTIFIER == 0 {
        for before in [field::IP, field::TID, field::TIME, field::ADDR] {
            if fields & before != 0 {
                bytes.u64()?;
            }
        }
        if fields & field::ID == 0 {
            return Some(0);
        }
    }
    by_id.get(&bytes.u64()?).copied()
}

fn sample<'a>(mut bytes: Bytes<'a>, of: &Event, event: usize, flags: u16) -> Option<Sample<'a>> {
    let fields = of.attr.sample_type;
    let has = |field| fields & field != 0;
    let mut sample = Sample {
        event,
        mode: CpuMode::of_record(flags),
        has_stack: has(field::STACK_USER),
        ..Sample::default()
    };
    if has(field::IDENTIFIER) {
        bytes.u64()?;
    }
    if has(field::IP) {
        sample.address = Some(bytes.u64()?);
    }
    if has(field::TID) {
        sample.task = Some((bytes.u32()?, bytes.u32()?));
    }
    if has(field::TIME) {
        sample.time = bytes.u64()?;
    }
    for passed in [field::ADDR, field::ID, field::STREAM_ID] {
        if has(passed) {
            bytes.u64()?;
        }
    }
    if has(field::CPU) {
        sample.cpu = Some(bytes.u32()?);
        bytes.u32()?;
    }
    if has(field::PERIOD) {
        sample.period = Some(bytes.u64()?);
    }
    if has(field::READ) {
        skip_counts(&mut bytes, of.attr.read_format)?;
    }
    if has(field::CALLCHAIN) {
        let count = bytes.u64()?;
        sample.chain = Chain(bytes.words(count)?);
    }
    if sample.has_stack {
        sample.user = user_state(bytes, of);
    }
    Some(sample)
}

/// Reads registers and stack, which follow on the callchain. Returns `None` if the sample has none,
/// as those of kernel threads.
fn user_state<'a>(mut bytes: Bytes<'a>, of: &Event) -> Option<UserState<'a>> {
    let has = |field| of.attr.sample_type & field != 0;
    let has_branches = |setting| of.attr.branches & setting != 0;
    if has(field::RAW) {
        let size = bytes.u32()?;
        bytes.take(usize::try_from(size).ok()?)?;
    }
    if has(field::BRANCH_STACK) {
        let count = bytes.u64()?;
        if has_branches(branches::HARDWARE_INDEX) {
            bytes.u64()?;
        }
        let words = if has_branches(branches::COUNTERS) {
            4
        } else {
            3
        };
        bytes.words(count.checked_mul(words)?)?;
    }
    if !has(field::REGS_USER) {
        return None;
    }
    let abi = bytes.u64().filter(|abi| *abi != 0)?;
    let mask = of.attr.registers;
    let registers = bytes.words(mask.count_ones().into())?;
    let size = bytes.u64().filter(|size| *size > 0)?;
    let copy = bytes.take(usize::try_from(size).ok()?)?;
    let used = usize::try_from(bytes.u64()?).ok()?;
    Some(UserState {
        abi,
        mask,
        registers,
        stack: copy.get(..used)?,
        is_full: used == copy.len(),
    })
}

fn skip_counts(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    let has = |field| u64::from(format & field != 0);
    let times = has(read_format::TOTAL_TIME_ENABLED) + has(read_format::TOTAL_TIME_RUNNING);
    let each = 1 + has(read_format::ID) + has(read_format::LOST);
    let words = match has(read_format::GROUP) {
        0 => times + each,
        _ => bytes.u64()?.checked_mul(each)?.checked_add(times)?,
    };
    bytes.words(words).map(|_| ())
}

/// Returns the time of a record other than a sample, which is at its end.
fn time_at_end(record: &[u8], event: Option<&Event>) -> Option<u64> {
    let attr = event?.attr;
    if !attr.sample_id_all || attr.sample_type & field::TIME == 0 {
        return None;
    }
    let behind = [field::ID, field::STREAM_ID, field::CPU, field::IDENTIFIER];
    let behind = behind
        .iter()
        .filter(|field| attr.sample_type & **field != 0);
    let at = record.len().checked_sub(8 * (1 + behind.count()))?;
    Bytes::new(record.get(at..)?).u64()
}
