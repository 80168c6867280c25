//! From the bytes of a record to its parts.

use super::{
    Abi, Callchain, CpuMode, Record, SampleRecord, SwitchRecord, TaskRecord, Totals, UserRegisters,
    Words,
};

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_THROTTLE: u32 = 5;
const RECORD_UNTHROTTLE: u32 = 6;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_MMAP2: u32 = 10;
const RECORD_LOST_SAMPLES: u32 = 13;
const RECORD_SWITCH: u32 = 14;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// The fields that the samples of a ring have. All have process, thread and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Format {
    /// CPU of the ring.
    pub cpu: u32,
    /// The number of events that are counted.
    pub counters: usize,
    /// The way counts are written.
    pub counts: Counts,
    /// Set if there are frames found by the kernel.
    pub callchain: bool,
    /// The user's registers in samples, as a mask, along with a copy of the stack; 0 if neither is
    /// there.
    pub registers: u64,
    /// Set if all other records end with process, thread and time.
    pub sample_id: bool,
}

/// The way counts are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counts {
    /// The count of the timebase since the last sample.
    #[default]
    Period,
    /// The counts so far.
    Read {
        /// With the followers: their number, then each.
        group: bool,
        /// Each count is followed by how many samples of the event were lost.
        lost: bool,
        /// By this task, and not on this CPU.
        of_task: bool,
    },
}

/// Takes a record apart. `record` begins with its header, whose size has been checked against
/// `record.len()`.
///
/// `totals` belongs to the ring: it is where the counts of its samples are added up.
pub fn parse<'a>(format: &Format, record: &'a [u8], totals: &'a mut Totals) -> Record<'a> {
    parse_body(format, record, totals).unwrap_or(Record::Malformed {
        bytes: record.len(),
    })
}

fn parse_body<'a>(format: &Format, record: &'a [u8], totals: &'a mut Totals) -> Option<Record<'a>> {
    let mut fields = Fields(record);
    let kind = fields.u32()?;
    let misc = fields.u16()?;
    let _size = fields.u16()?;
    if kind == RECORD_SAMPLE {
        return sample(format, misc, fields, totals).map(Record::Sample);
    }
    let (mut fields, id) = fields.split_id(format)?;
    Some(match kind {
        RECORD_LOST => {
            let _id = fields.u64()?;
            Record::Lost {
                count: fields.u64()?,
            }
        }
        RECORD_LOST_SAMPLES => Record::Lost {
            count: fields.u64()?,
        },
        RECORD_THROTTLE => Record::Throttle {
            time: fields.u64()?,
        },
        RECORD_UNTHROTTLE => Record::Unthrottle {
            time: fields.u64()?,
        },
        RECORD_FORK => Record::Fork(fields.task()?),
        RECORD_EXIT => Record::Exit(fields.task()?),
        RECORD_COMM => Record::Comm {
            time: id.time,
            pid: fields.u32()?,
            tid: fields.u32()?,
            exec: misc & MISC_COMM_EXEC != 0,
            name: until_zero(fields.0),
        },
        RECORD_MMAP2 => mmap2(misc, id, fields)?,
        RECORD_SWITCH => Record::Switch(switch(misc, id, None)),
        RECORD_SWITCH_CPU_WIDE => {
            let other = (fields.u32()?, fields.u32()?);
            Record::Switch(switch(misc, id, Some(other)))
        }
        kind => Record::Other { kind },
    })
}

fn sample<'a>(
    format: &Format,
    misc: u16,
    mut fields: Fields<'a>,
    totals: &'a mut Totals,
) -> Option<SampleRecord<'a>> {
    let pid = fields.u32()?;
    let tid = fields.u32()?;
    let time = fields.u64()?;
    fields.counts(format, tid, totals)?;
    let callchain = if format.callchain {
        let count = fields.u64()?;
        Callchain::new(fields.words(count)?)
    } else {
        Callchain::default()
    };
    let (mut registers, mut stack, mut stack_maxed) = (None, &[][..], false);
    if format.registers != 0 {
        registers = fields.registers(format.registers)?;
        (stack, stack_maxed) = fields.stack()?;
    }
    // Newer kernels may pad the record.
    Some(SampleRecord {
        time,
        pid,
        tid,
        cpu: format.cpu,
        cpu_mode: CpuMode::of(misc),
        counts: totals.counts(),
        registers,
        stack,
        stack_maxed,
        callchain,
    })
}

fn mmap2<'a>(misc: u16, id: Id, mut fields: Fields<'a>) -> Option<Record<'a>> {
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let device = (fields.u32()?, fields.u32()?);
    let (inode, _generation) = (fields.u64()?, fields.u64()?);
    let is_of_file = misc & MISC_MMAP_BUILD_ID == 0;
    // Protection and flags.
    fields.take(8)?;
    Some(Record::Mmap2 {
        time: id.time,
        pid,
        tid,
        start,
        length,
        offset,
        device: if is_of_file { device } else { (0, 0) },
        inode: if is_of_file { inode } else { 0 },
        path: until_zero(fields.0),
    })
}

fn switch(misc: u16, id: Id, other: Option<(u32, u32)>) -> SwitchRecord {
    SwitchRecord {
        time: id.time,
        pid: id.pid,
        tid: id.tid,
        out: misc & MISC_SWITCH_OUT != 0,
        preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0,
        other,
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The fields at the end of all records but samples.
#[derive(Default)]
struct Id {
    pid: u32,
    tid: u32,
    time: u64,
}

/// The rest of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn words(&mut self, count: u64) -> Option<Words<'a>> {
        let bytes = usize::try_from(count).ok()?.checked_mul(8)?;
        self.take(bytes).map(Words::new)
    }

    /// Cuts off the trailer of records other than samples.
    fn split_id(self, format: &Format) -> Option<(Self, Id)> {
        if !format.sample_id {
            return Some((self, Id::default()));
        }
        let at = self.0.len().checked_sub(16)?;
        let (body, id) = self.0.split_at(at);
        let mut id = Fields(id);
        let id = Id {
            pid: id.u32()?,
            tid: id.u32()?,
            time: id.u64()?,
        };
        Some((Self(body), id))
    }

    fn task(&mut self) -> Option<TaskRecord> {
        let (pid, parent_pid) = (self.u32()?, self.u32()?);
        let (tid, parent_tid) = (self.u32()?, self.u32()?);
        Some(TaskRecord {
            time: self.u64()?,
            pid,
            tid,
            parent_pid,
            parent_tid,
        })
    }

    /// Reads the counts: as many as there should be, even if the record says otherwise.
    fn counts(&mut self, format: &Format, tid: u32, totals: &mut Totals) -> Option<()> {
        let Counts::Read {
            group,
            lost,
            of_task,
        } = format.counts
        else {
            totals.add_period(format.counters, self.u64()?);
            return Some(());
        };
        let entries = if group { self.u64()? } else { 1 };
        let width = if lost { 2 } else { 1 };
        let words = self.words(entries.checked_mul(width)?)?;
        let values = words.iter().step_by(width as usize);
        if of_task {
            totals.add_task(format.counters, tid, values);
        } else {
            totals.replace(format.counters, values);
        }
        Some(())
    }

    fn registers(&mut self, mask: u64) -> Option<Option<UserRegisters<'a>>> {
        let abi = match self.u64()? {
            0 => return Some(None),
            1 => Abi::Bits32,
            _ => Abi::Bits64,
        };
        let values = self.words(mask.count_ones().into())?;
        Some(Some(UserRegisters { abi, mask, values }))
    }

    /// The valid bytes of the stack, and whether the copy is full.
    fn stack(&mut self) -> Option<(&'a [u8], bool)> {
        let size = self.u64()?;
        if size == 0 {
            return Some((&[], false));
        }
        let copied = self.take(usize::try_from(size).ok()?)?;
        let valid = self.u64()?;
        let stack = copied.get(..usize::try_from(valid).ok()?)?;
        Some((stack, valid == size))
    }
}
