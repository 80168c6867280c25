//! Translation of kernel event records to `FtraceEvent` payloads.

mod short;

use ferretto_proto::fields::{
    ftrace_event, generic_ftrace_event, kprobe_event, sys_enter_ftrace_event, sys_exit_ftrace_event,
};
use ferretto_wire::Encoder;
use rustc_hash::FxHashMap;

use super::bytes::{Out, until_nul};
use super::field_type::{KernelType, Op};
use super::format::EventFormat;
use super::metadata::Metadata;
use super::table::{KnownEvent, MessageType};
use short::ShortEvent;
pub(super) use short::length_until_nul;

/// Kernel string addresses and the text they point at, from `printk_formats`.
pub type StringTable = FxHashMap<u64, Box<str>>;

/// Field number of `FtraceEvent.sys_enter`.
const SYS_ENTER: u32 = 329;
/// Field number of `FtraceEvent.kprobe_event`.
const KPROBE_EVENT: u32 = 542;
/// Field number of `FtraceEvent.sys_exit`.
const SYS_EXIT: u32 = 330;

/// `KprobeEvent.KprobeType` as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Begin of a slice.
    Begin = 1,
    /// End of a slice.
    End = 2,
    /// A point in time.
    Instant = 3,
}

/// A field of an [`EventDecoder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldDecoder {
    name: Box<str>,
    pub(super) number: u32,
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) op: Op,
    kernel_type: KernelType,
}

/// The layout of an event's fields in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Field by field.
    Plain,
    /// `raw_syscalls/sys_enter`: id and six words.
    SysEnter,
    /// `raw_syscalls/sys_exit`: id and result, which may reveal a new file descriptor.
    SysExit,
    /// A kernel probe: its name and the function that it marks.
    Kprobe(Mark),
}

/// Translates the records of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDecoder {
    /// The directory under `events/`.
    pub group: Box<str>,
    /// The directory under the group.
    pub name: Box<str>,
    /// The event id on this kernel.
    pub id: u16,
    /// Field number in `FtraceEvent`.
    pub number: u32,
    /// The minimum size of valid records.
    pub min_size: usize,
    /// The encoded entry of `FtraceEventBundle.generic_event_descriptors`, for events without a
    /// dedicated message.
    pub descriptor: Option<Box<[u8]>>,
    shape: Shape,
    fields: Box<[FieldDecoder]>,
    short: Option<ShortEvent>,
}

impl EventDecoder {
    /// Creates a decoder for an event with a dedicated message.
    pub fn known(event: &KnownEvent, format: &EventFormat) -> Self {
        let mut fields = Vec::new();
        for target in event.fields() {
            let Some(source) = format.field(target.name) else {
                continue;
            };
            let kernel_type = if event.group == "ftrace"
                && event.name.starts_with("funcgraph_")
                && target.name == "func"
            {
                Some(KernelType::Address(source.size.min(8) as u8))
            } else {
                KernelType::infer(source)
            };
            let Some(kernel_type) = kernel_type else {
                continue;
            };
            let op = match kernel_type {
                // Written as part of the event's shape.
                KernelType::SyscallArgs(_) if event.number == SYS_ENTER => Op::U64,
                _ => match Op::select(kernel_type, target.ty) {
                    Some(op) => op,
                    None => continue,
                },
            };
            fields.push(FieldDecoder {
                name: target.name.into(),
                number: target.number,
                offset: source.offset.into(),
                size: source.size.into(),
                op,
                kernel_type,
            });
        }
        let shape = match event.number {
            SYS_ENTER => Shape::SysEnter,
            SYS_EXIT => Shape::SysExit,
            _ => Shape::Plain,
        };
        Self::new(
            event.group,
            event.name,
            format,
            event.number,
            shape,
            fields,
            None,
        )
    }

    /// Creates a decoder for any other event, with a field number assigned at run time.
    pub fn generic(group: &str, format: &EventFormat, number: u32) -> Self {
        let mut fields = Vec::new();
        let mut described = Vec::new();
        let mut next = 0;
        for source in &format.fields {
            let Some(kernel_type) = KernelType::infer(source) else {
                continue;
            };
            next += 1;
            let Some(ty) = kernel_type.generic_type() else {
                continue;
            };
            let Some(op) = Op::select(kernel_type, ty) else {
                continue;
            };
            described.push((source.name.as_str(), next, ty));
            fields.push(FieldDecoder {
                name: source.name.as_str().into(),
                number: next,
                offset: source.offset.into(),
                size: source.size.into(),
                op,
                kernel_type,
            });
        }
        let descriptor = describe(group, &format.name, number, &described);
        let descriptor = Some(descriptor.into_boxed_slice());
        Self::new(
            group,
            &format.name,
            format,
            number,
            Shape::Plain,
            fields,
            descriptor,
        )
    }

    /// Creates a decoder for a kernel probe created by this program.
    pub fn kprobe(group: &str, format: &EventFormat, mark: Mark) -> Self {
        let shape = Shape::Kprobe(mark);
        Self::new(
            group,
            &format.name,
            format,
            KPROBE_EVENT,
            shape,
            Vec::new(),
            None,
        )
    }

    fn new(
        group: &str,
        name: &str,
        format: &EventFormat,
        number: u32,
        shape: Shape,
        fields: Vec<FieldDecoder>,
        descriptor: Option<Box<[u8]>>,
    ) -> Self {
        let common_end = format
            .common
            .iter()
            .map(|field| usize::from(field.offset + field.size))
            .max();
        let end = fields.iter().map(|field| field.offset + field.size).max();
        let changes_task =
            [ftrace_event::TASK_RENAME, ftrace_event::SCHED_PROCESS_EXIT].contains(&number);
        let is_plain = shape == Shape::Plain && descriptor.is_none() && !changes_task;
        Self {
            short: is_plain.then(|| ShortEvent::new(number, &fields)).flatten(),
            group: group.into(),
            name: name.into(),
            id: format.id,
            number,
            min_size: common_end.unwrap_or(0).max(end.unwrap_or(0)),
            descriptor,
            shape,
            fields: fields.into_boxed_slice(),
        }
    }

    /// Returns the offset of the text that extends to the end of the record, if there is one.
    pub(crate) fn trailing_text(&self) -> Option<usize> {
        self.fields
            .iter()
            .find(|field| field.op == Op::TrailingString)
            .map(|field| field.offset)
    }

    /// Returns the offset of the field with this name, if it has this size in bytes.
    pub(super) fn offset_of(&self, name: &str, size: usize) -> Option<usize> {
        let mut fields = self.fields.iter();
        let field = fields.find(|field| &*field.name == name && field.size == size);
        field.map(|field| field.offset)
    }

    /// Returns the fast path for records of this event, if there is one.
    #[inline]
    pub(super) fn short(&self) -> Option<&ShortEvent> {
        self.short.as_ref()
    }

    /// Returns true for `task/task_rename`, which changes the name of a process.
    pub(crate) fn renames_task(&self) -> bool {
        self.number == ftrace_event::TASK_RENAME
    }

    /// Returns true for `sched/sched_process_exit`, after which the id of a task can be reused.
    pub(crate) fn ends_task(&self) -> bool {
        self.number == ftrace_event::SCHED_PROCESS_EXIT
    }

    /// Writes the event's dedicated message. Returns `false` if the record does not match the
    /// format; the fields written so far stay.
    pub(crate) fn encode(&self, record: &[u8], env: &mut Env<'_>, out: &mut Out<'_>) -> bool {
        match self.shape {
            Shape::Plain => {
                let mut good = true;
                for field in &self.fields {
                    good &= field.encode(record, env, out).is_some();
                }
                env.metadata.end_event(env.common_pid);
                good
            }
            Shape::SysEnter => self.encode_sys_enter(record, out).is_some(),
            Shape::SysExit => self.encode_sys_exit(record, env, out).is_some(),
            Shape::Kprobe(mark) => {
                out.string(kprobe_event::NAME, &self.name);
                out.varint(kprobe_event::TYPE, mark as u64);
                true
            }
        }
    }

    /// Writes the legacy form of an event without a dedicated message: names and values.
    pub(crate) fn encode_legacy(
        &self,
        record: &[u8],
        env: &mut Env<'_>,
        out: &mut Out<'_>,
    ) -> bool {
        out.string(generic_ftrace_event::EVENT_NAME, &self.name);
        let mut good = true;
        let mut value = Vec::new();
        for field in &self.fields {
            out.nested(generic_ftrace_event::FIELD, |entry| {
                entry.string(generic_ftrace_event::field::NAME, &field.name);
                value.clear();
                good &= field
                    .encode_legacy(record, env, entry, &mut value)
                    .is_some();
            });
        }
        good
    }

    fn by_name(&self, name: &str) -> Option<&FieldDecoder> {
        self.fields.iter().find(|field| &*field.name == name)
    }

    fn encode_sys_enter(&self, record: &[u8], out: &mut Out<'_>) -> Option<()> {
        let id = self.by_name("id")?.signed(record)?;
        let args = self.by_name("args")?;
        let KernelType::SyscallArgs(width) = args.kernel_type else {
            return None;
        };
        out.int(sys_enter_ftrace_event::ID, id);
        let words = record.get(args.offset..args.offset + args.size)?;
        for word in words.chunks_exact(width.into()) {
            let value = match width {
                4 => u64::from(u32::from_le_bytes(word.try_into().ok()?)),
                _ => u64::from_le_bytes(word.try_into().ok()?),
            };
            out.varint(sys_enter_ftrace_event::ARGS, value);
        }
        Some(())
    }

    fn encode_sys_exit(&self, record: &[u8], env: &mut Env<'_>, out: &mut Out<'_>) -> Option<()> {
        let id = self.by_name("id")?.signed(record)?;
        let ret = self.by_name("ret")?.signed(record)?;
        out.int(sys_exit_ftrace_event::ID, id);
        out.int(sys_exit_ftrace_event::RET, ret);
        if (0..=i64::from(i32::MAX)).contains(&ret) && env.opening_syscalls.contains(&id) {
            env.metadata.add_fd(env.common_pid, ret as u64);
        }
        Some(())
    }
}

/// The context of a record.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) strings: &'a StringTable,
    pub(crate) metadata: &'a mut Metadata,
    /// The process id of the running task.
    pub(crate) common_pid: i32,
    /// The numbers of the system calls that return a new file descriptor.
    pub(crate) opening_syscalls: &'a [i64],
}

impl FieldDecoder {
    /// Writes the field. `None` if the value is outside the record.
    #[inline]
    fn encode(&self, record: &[u8], env: &mut Env<'_>, out: &mut Out<'_>) -> Option<()> {
        match self.op {
            Op::U8 => out.varint(self.number, self.chunk::<1>(record)?[0].into()),
            Op::U16 => out.varint(self.number, u16::from_le_bytes(self.chunk(record)?).into()),
            Op::U32 => out.varint(self.number, u32::from_le_bytes(self.chunk(record)?).into()),
            Op::U64 => out.varint(self.number, u64::from_le_bytes(self.chunk(record)?)),
            Op::I8 => out.int(self.number, i8::from_le_bytes(self.chunk(record)?).into()),
            Op::I16 => out.int(self.number, i16::from_le_bytes(self.chunk(record)?).into()),
            Op::I32 => out.int(self.number, i32::from_le_bytes(self.chunk(record)?).into()),
            Op::I64 => out.int(self.number, i64::from_le_bytes(self.chunk(record)?)),
            Op::Inode32 | Op::Inode64 => {
                let inode = self.unsigned(record)?;
                env.metadata.add_inode(inode);
                out.varint(self.number, inode);
            }
            Op::Device32 | Op::Device64 => {
                let device = user_device(self.unsigned(record)?);
                env.metadata.add_device(device);
                out.varint(self.number, device);
            }
            Op::Address32 | Op::Address64 => {
                let index = env.metadata.address_index(self.unsigned(record)?);
                out.varint(self.number, index.into());
            }
            Op::Pid => {
                let pid = i32::from_le_bytes(self.chunk(record)?);
                env.metadata.add_pid(pid);
                out.int(self.number, pid.into());
            }
            Op::FixedString
            | Op::TrailingString
            | Op::StringPointer
            | Op::DataLocText
            | Op::DataLocBytes => out.bytes(self.number, self.text(record, env.strings)?),
        }
        Some(())
    }

    fn encode_legacy(
        &self,
        record: &[u8],
        env: &mut Env<'_>,
        out: &mut Out<'_>,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        use generic_ftrace_event::field::{INT_VALUE, STR_VALUE, UINT_VALUE};
        let number = match self.kernel_type.generic_type()? {
            MessageType::String => STR_VALUE,
            MessageType::Int64 => INT_VALUE,
            MessageType::Uint64 => UINT_VALUE,
            _ => return None,
        };
        let renumbered = Self {
            number,
            ..self.clone()
        };
        let result = renumbered.encode(record, env, &mut Encoder::new(scratch));
        out.raw(scratch);
        result
    }

    #[inline]
    fn chunk<const N: usize>(&self, record: &[u8]) -> Option<[u8; N]> {
        record.get(self.offset..)?.first_chunk().copied()
    }

    fn unsigned(&self, record: &[u8]) -> Option<u64> {
        Some(match self.size {
            4 => u32::from_le_bytes(self.chunk(record)?).into(),
            _ => u64::from_le_bytes(self.chunk(record)?),
        })
    }

    fn signed(&self, record: &[u8]) -> Option<i64> {
        Some(match self.size {
            4 => i32::from_le_bytes(self.chunk(record)?).into(),
            8 => i64::from_le_bytes(self.chunk(record)?),
            _ => return None,
        })
    }

    fn text<'a>(&self, record: &'a [u8], strings: &'a StringTable) -> Option<&'a [u8]> {
        Some(match self.op {
            Op::FixedString => until_nul(record.get(self.offset..self.offset + self.size)?),
            Op::TrailingString => until_nul(record.get(self.offset..)?),
            Op::StringPointer => strings
                .get(&self.unsigned(record)?)
                .map_or(&b""[..], |text| text.as_bytes()),
            Op::DataLocText => until_nul(self.located(record)?),
            _ => self.located(record)?,
        })
    }

    /// Returns the bytes that a `__data_loc` word refers to: offset in its low half, length in its
    /// high half.
    fn located<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let word = u32::from_le_bytes(self.chunk(record)?);
        let (offset, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
        if length == 0 {
            return Some(&[]);
        }
        record.get(offset..offset + length)
    }
}

/// Converts a kernel device number to the format of `stat`.
fn user_device(dev: u64) -> u64 {
    let (major, minor) = (dev >> 20, dev & 0xf_ffff);
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

/// Returns the entry of `generic_event_descriptors`: number, a `google.protobuf.DescriptorProto`,
/// group.
fn describe(group: &str, name: &str, number: u32, fields: &[(&str, u32, MessageType)]) -> Vec<u8> {
    use ferretto_proto::fields::ftrace_event_bundle::generic_event_descriptor as entry;
    // Field numbers of google.protobuf.DescriptorProto and FieldDescriptorProto.
    const NAME: u32 = 1;
    const MESSAGE_FIELD: u32 = 2;
    const FIELD_NUMBER: u32 = 3;
    const FIELD_TYPE: u32 = 5;
    let message = ferretto_wire::encode(|message| {
        message.string(NAME, name);
        for &(name, number, ty) in fields {
            message.nested(MESSAGE_FIELD, |field| {
                field.string(NAME, name);
                field.varint(FIELD_NUMBER, number.into());
                field.varint(FIELD_TYPE, ty.descriptor_type());
            });
        }
    });
    ferretto_wire::encode(|out| {
        out.varint(entry::FIELD_ID, number.into());
        out.bytes(entry::EVENT_DESCRIPTOR, &message);
        out.string(entry::GROUP_NAME, group);
    })
}
