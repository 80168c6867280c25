//! From the bytes of a record to its parts.

use ferretto_format::perf_record::{Bytes, kind, misc, until_zero};

use super::{
    Abi, Callchain, CpuMode, Record, SampleRecord, SwitchRecord, TaskRecord, Totals, UserRegisters,
};

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
    let mut fields = Bytes::new(record);
    let kind = fields.u32()?;
    let flags = fields.u16()?;
    let _size = fields.u16()?;
    if kind == kind::SAMPLE {
        return sample(format, flags, fields, totals).map(Record::Sample);
    }
    let (mut fields, id) = split_id(fields, format)?;
    Some(match kind {
        kind::LOST => {
            let _id = fields.u64()?;
            Record::Lost {
                count: fields.u64()?,
            }
        }
        kind::LOST_SAMPLES => Record::Lost {
            count: fields.u64()?,
        },
        kind::THROTTLE => Record::Throttle {
            time: fields.u64()?,
        },
        kind::UNTHROTTLE => Record::Unthrottle {
            time: fields.u64()?,
        },
        kind::FORK => Record::Fork(task(&mut fields)?),
        kind::EXIT => Record::Exit(task(&mut fields)?),
        kind::COMM => Record::Comm {
            time: id.time,
            pid: fields.u32()?,
            tid: fields.u32()?,
            exec: flags & misc::COMM_EXEC != 0,
            name: until_zero(fields.rest()),
        },
        kind::MMAP2 => mmap2(flags, id, fields)?,
        kind::SWITCH => Record::Switch(switch(flags, id, None)),
        kind::SWITCH_CPU_WIDE => {
            let other = (fields.u32()?, fields.u32()?);
            Record::Switch(switch(flags, id, Some(other)))
        }
        kind => Record::Other { kind },
    })
}

fn sample<'a>(
    format: &Format,
    flags: u16,
    mut fields: Bytes<'a>,
    totals: &'a mut Totals,
) -> Option<SampleRecord<'a>> {
    let pid = fields.u32()?;
    let tid = fields.u32()?;
    let time = fields.u64()?;
    counts(&mut fields, format, tid, totals)?;
    let callchain = if format.callchain {
        let count = fields.u64()?;
        Callchain::new(fields.words(count)?)
    } else {
        Callchain::default()
    };
    let (mut registers, mut stack, mut stack_maxed) = (None, &[][..], false);
    if format.registers != 0 {
        registers = user_registers(&mut fields, format.registers)?;
        (stack, stack_maxed) = user_stack(&mut fields)?;
    }
    // Newer kernels may pad the record.
    Some(SampleRecord {
        time,
        pid,
        tid,
        cpu: format.cpu,
        cpu_mode: CpuMode::of_record(flags),
        counts: totals.counts(),
        registers,
        stack,
        stack_maxed,
        callchain,
    })
}

fn mmap2<'a>(flags: u16, id: Id, mut fields: Bytes<'a>) -> Option<Record<'a>> {
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let device = (fields.u32()?, fields.u32()?);
    let (inode, _generation) = (fields.u64()?, fields.u64()?);
    let is_of_file = flags & misc::MMAP_BUILD_ID == 0;
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
        path: until_zero(fields.rest()),
    })
}

fn switch(flags: u16, id: Id, other: Option<(u32, u32)>) -> SwitchRecord {
    SwitchRecord {
        time: id.time,
        pid: id.pid,
        tid: id.tid,
        out: flags & misc::SWITCH_OUT != 0,
        preempted: flags & misc::SWITCH_OUT_PREEMPT != 0,
        other,
    }
}

/// The fields at the end of all records but samples.
#[derive(Default)]
struct Id {
    pid: u32,
    tid: u32,
    time: u64,
}

/// Cuts off the trailer of records other than samples.
fn split_id<'a>(record: Bytes<'a>, format: &Format) -> Option<(Bytes<'a>, Id)> {
    if !format.sample_id {
        return Some((record, Id::default()));
    }
    let bytes = record.rest();
    let (body, id) = bytes.split_at(bytes.len().checked_sub(16)?);
    let mut id = Bytes::new(id);
    let id = Id {
        pid: id.u32()?,
        tid: id.u32()?,
        time: id.u64()?,
    };
    Some((Bytes::new(body), id))
}

fn task(fields: &mut Bytes<'_>) -> Option<TaskRecord> {
    let (pid, parent_pid) = (fields.u32()?, fields.u32()?);
    let (tid, parent_tid) = (fields.u32()?, fields.u32()?);
    Some(TaskRecord {
        time: fields.u64()?,
        pid,
        tid,
        parent_pid,
        parent_tid,
    })
}

/// Reads the counts: as many as there should be, even if the record says otherwise.
fn counts(fields: &mut Bytes<'_>, format: &Format, tid: u32, totals: &mut Totals) -> Option<()> {
    let Counts::Read {
        group,
        lost,
        of_task,
    } = format.counts
    else {
        totals.add_period(format.counters, fields.u64()?);
        return Some(());
    };
    let entries = if group { fields.u64()? } else { 1 };
    let width = if lost { 2 } else { 1 };
    let words = fields.words(entries.checked_mul(width)?)?;
    let values = words.iter().step_by(width as usize);
    if of_task {
        totals.add_task(format.counters, tid, values);
    } else {
        totals.replace(format.counters, values);
    }
    Some(())
}

fn user_registers<'a>(fields: &mut Bytes<'a>, mask: u64) -> Option<Option<UserRegisters<'a>>> {
    let abi = match fields.u64()? {
        0 => return Some(None),
        1 => Abi::Bits32,
        _ => Abi::Bits64,
    };
    let values = fields.words(mask.count_ones().into())?;
    Some(Some(UserRegisters { abi, mask, values }))
}

/// The valid bytes of the stack, and whether the copy is full.
fn user_stack<'a>(fields: &mut Bytes<'a>) -> Option<(&'a [u8], bool)> {
    let size = fields.u64()?;
    if size == 0 {
        return Some((&[], false));
    }
    let copied = fields.take(usize::try_from(size).ok()?)?;
    let valid = fields.u64()?;
    let stack = copied.get(..usize::try_from(valid).ok()?)?;
    Some((stack, valid == size))
}
