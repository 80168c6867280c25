//! A fast path for events whose messages are always short. They are written in place: their lengths
//! take one byte each, so nothing needs to be moved.

use ferretto_proto::fields::{ftrace_event, ftrace_event_bundle as bundle};
use ferretto_wire::{MAX_VARINT_LENGTH, short_varint_bits, varint_bits};

use super::FieldDecoder;
use crate::ftrace::field_type::Op;
use crate::ftrace::metadata::Metadata;

/// The longest message with a one-byte length.
const SHORT: usize = 0x7f;
/// The size of the buffer for the tag, the length and the message of an event, including the slack
/// of sixteen-byte writes.
const BUFFER_SIZE: usize = 160;
/// Width of a task's name.
const COMM: usize = 16;

const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// An encoded tag and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    bits: u64,
    length: usize,
}

impl Tag {
    const fn of_one_byte(byte: u8) -> Self {
        Self {
            bits: byte as u64,
            length: 1,
        }
    }

    fn new(number: u32, wire_type: u32) -> Self {
        let (bits, length) = varint_bits(u64::from(number) << 3 | u64::from(wire_type));
        // A field number has 29 bits, so that its tag has at most five bytes.
        Self {
            bits: bits as u64,
            length,
        }
    }
}

/// A number in a record. It is loaded together with the preceding bytes, eight in total: one load
/// for every size, since the header of a record is longer than eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    /// The start of the eight bytes, which end with the number.
    from: usize,
    /// The number of bits before the number.
    before: u32,
    /// The sign bit of a signed number shorter than eight bytes, otherwise 0.
    sign: u64,
}

impl Number {
    /// Returns `None` if the field is not a number.
    fn of(op: Op, offset: usize) -> Option<Self> {
        let (size, signed) = match op {
            Op::U8 => (1, false),
            Op::U16 => (2, false),
            Op::U32 => (4, false),
            Op::U64 => (8, false),
            Op::I8 => (1, true),
            Op::I16 => (2, true),
            Op::I32 | Op::Pid => (4, true),
            Op::I64 => (8, true),
            _ => return None,
        };
        Some(Self {
            from: (offset + size).checked_sub(8)?,
            before: 64 - 8 * size as u32,
            sign: if signed && size < 8 {
                1 << (8 * size - 1)
            } else {
                0
            },
        })
    }

    /// Returns the value as encoded in varints: a signed one extended to 64 bits.
    #[inline(always)]
    fn load(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.from..)?.first_chunk()?;
        let value = u64::from_le_bytes(*bytes) >> (self.before & 63);
        Some((value ^ self.sign).wrapping_sub(self.sign))
    }

    /// Returns the maximum size without the tag, in bytes.
    fn most(self) -> usize {
        match (self.sign, self.before) {
            (0, 56) => 2,
            (0, 48) => 3,
            (0, 32) => 5,
            _ => MAX_VARINT_LENGTH,
        }
    }
}

/// A value to be loaded from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Number(Number),
    /// A number that is as often short as long.
    Pid(Number),
    /// A task's name at this offset.
    Comm(usize),
}

impl Load {
    /// Returns `None` if the field is neither a number nor a task's name.
    fn of(field: &FieldDecoder) -> Option<Self> {
        let offset = field.offset;
        match field.op {
            Op::FixedString => (field.size == COMM).then_some(Self::Comm(offset)),
            Op::Pid => Number::of(Op::Pid, offset).map(Self::Pid),
            op => Number::of(op, offset).map(Self::Number),
        }
    }

    /// Returns the maximum encoded size without the tag, in bytes.
    fn most(self) -> usize {
        match self {
            Self::Number(number) | Self::Pid(number) => number.most(),
            Self::Comm(_) => 1 + COMM,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    tag: Tag,
    load: Load,
}

/// Writes the records of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ftrace) struct ShortEvent {
    tag: Tag,
    fields: Box<[Field]>,
}

impl ShortEvent {
    /// Creates the writer for a message with this number and these fields; `None` if it is not
    /// always short.
    pub(in crate::ftrace) fn new(number: u32, fields: &[FieldDecoder]) -> Option<Self> {
        let tag = Tag::new(number, LENGTH_DELIMITED);
        let fields: Option<Box<[Field]>> = fields
            .iter()
            .map(|field| {
                let load = Load::of(field)?;
                let wire_type = match load {
                    Load::Comm(_) => LENGTH_DELIMITED,
                    Load::Number(_) | Load::Pid(_) => VARINT,
                };
                Some(Field {
                    tag: Tag::new(field.number, wire_type),
                    load,
                })
            })
            .collect();
        let fields = fields?;
        let most = fields
            .iter()
            .map(|field| field.tag.length + field.load.most());
        // Time and pid, with their tags.
        let head = 2 * (1 + MAX_VARINT_LENGTH);
        (head + tag.length + 1 + most.sum::<usize>() <= SHORT).then_some(Self { tag, fields })
    }

    /// Appends the event of a record to a bundle. Returns `None`, without any effect, if a field is
    /// outside the record. `pid` is the running task.
    #[inline]
    pub(in crate::ftrace) fn write(
        &self,
        time: u64,
        pid: Option<i32>,
        record: &[u8],
        metadata: &mut Metadata,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        const EVENT: u8 = (bundle::EVENT << 3 | LENGTH_DELIMITED) as u8;
        const TIMESTAMP: Tag = Tag::of_one_byte((ftrace_event::TIMESTAMP << 3) as u8);
        const PID: Tag = Tag::of_one_byte((ftrace_event::PID << 3) as u8);

        let start = out.len();
        out.extend_from_slice(&[0; BUFFER_SIZE]);
        let mut buffer = ShortBuffer {
            bytes: out[start..].first_chunk_mut()?,
            at: 2,
        };
        buffer.long_number(TIMESTAMP, time);
        if let Some(pid) = pid {
            metadata.add_pid(pid);
            buffer.long_number(PID, i64::from(pid) as u64);
        }
        buffer.put_word(self.tag.bits, self.tag.length + 1);
        let body = buffer.at;
        for field in &self.fields {
            if buffer.field(field, record, metadata).is_none() {
                out.truncate(start);
                return None;
            }
        }
        let (bytes, end) = (buffer.bytes, buffer.at);
        bytes[(body - 1) & 0x7f] = (end - body) as u8;
        bytes[..2].copy_from_slice(&[EVENT, (end - 2) as u8]);
        out.truncate(start + end);
        Some(())
    }
}

/// The buffer that an event is written into.
struct ShortBuffer<'a> {
    bytes: &'a mut [u8; BUFFER_SIZE],
    at: usize,
}

impl ShortBuffer<'_> {
    /// Writes the lowest `length` bytes.
    #[inline(always)]
    fn put(&mut self, bits: u128, length: usize) {
        // An event is short, so the mask changes nothing, and all sixteen fit
        // bytes.
        let at = self.at & SHORT;
        self.bytes[at..at + 16].copy_from_slice(&bits.to_le_bytes());
        self.at += length;
    }

    /// Writes the lowest `length` bytes.
    #[inline(always)]
    fn put_word(&mut self, bits: u64, length: usize) {
        let at = self.at & SHORT;
        self.bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
        self.at += length;
    }

    /// Writes a number that is usually less than 128.
    #[inline(always)]
    fn number(&mut self, tag: Tag, value: u64) {
        if value < 0x80 {
            let bits = tag.bits | value << (8 * tag.length);
            return self.put_word(bits, tag.length + 1);
        }
        self.long_number(tag, value);
    }

    /// Writes any number without a branch on its size.
    #[inline(always)]
    fn long_number(&mut self, tag: Tag, value: u64) {
        self.put_word(tag.bits, tag.length);
        if value < 1 << 56 {
            let (bits, length) = short_varint_bits(value);
            self.put_word(bits, length);
        } else {
            let (bits, length) = varint_bits(value);
            self.put(bits, length);
        }
    }

    #[inline(always)]
    fn field(&mut self, field: &Field, record: &[u8], metadata: &mut Metadata) -> Option<()> {
        match field.load {
            Load::Number(number) => self.number(field.tag, number.load(record)?),
            Load::Pid(number) => {
                let value = number.load(record)?;
                metadata.add_pid(value as i32);
                self.long_number(field.tag, value);
            }
            Load::Comm(offset) => {
                let name = u128::from_le_bytes(*record.get(offset..)?.first_chunk()?);
                let length = length_until_nul(name);
                let tag = field.tag;
                let bits = tag.bits | (length as u64) << (8 * tag.length);
                self.put_word(bits, tag.length + 1);
                self.put(name, length);
            }
        }
        Some(())
    }
}

/// Returns the number of the sixteen bytes before the first zero.
#[inline]
pub(in crate::ftrace) fn length_until_nul(bytes: u128) -> usize {
    const LOW: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zeros = |half: u64| half.wrapping_sub(LOW) & !half & HIGH;
    match zeros(bytes as u64) {
        0 => match zeros((bytes >> 64) as u64) {
            0 => 16,
            zeros => 8 + zeros.trailing_zeros() as usize / 8,
        },
        zeros => zeros.trailing_zeros() as usize / 8,
    }
}

#[cfg(test)]
mod tests {
    use ferretto_wire::Encoder;

    use super::*;
    use crate::ftrace::decoder::{Env, EventDecoder, StringTable};
    use crate::ftrace::format::EventFormat;
    use crate::ftrace::table;

    fn decoder(name: &str, format: &str) -> EventDecoder {
        let format = EventFormat::parse(format).expect("a format");
        EventDecoder::known(&table::find("sched", name).expect("an event"), &format)
    }

    fn switches() -> EventDecoder {
        let format = include_str!("../../../tests/data/sched/events/sched/sched_switch/format");
        decoder("sched_switch", format)
    }

    /// Writes a record by the path of all other events.
    fn written(decoder: &EventDecoder, time: u64, pid: i32, record: &[u8]) -> Vec<u8> {
        let (mut bytes, mut metadata) = (Vec::new(), Metadata::default());
        let mut env = Env {
            strings: &StringTable::default(),
            metadata: &mut metadata,
            common_pid: pid,
            opening_syscalls: &[],
        };
        Encoder::new(&mut bytes).nested(bundle::EVENT, |event| {
            event.varint(ftrace_event::TIMESTAMP, time);
            event.int(ftrace_event::PID, pid.into());
            event.nested(decoder.number, |body| {
                assert!(decoder.encode(record, &mut env, body));
            });
        });
        bytes
    }

    #[test]
    fn the_fast_path_writes_the_same_bytes() {
        let waking = include_str!("../../../tests/data/sched/events/sched/sched_waking/format");
        let mut random = 1u64;
        for decoder in [switches(), decoder("sched_waking", waking)] {
            let short = decoder.short().expect("it is short");
            for round in 0..2000 {
                let mut record = vec![0; decoder.min_size];
                for byte in &mut record {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    // Numbers of all lengths, and names with and without NUL.
                    *byte = if random >> 60 < round % 16 {
                        0
                    } else {
                        (random >> 33) as u8
                    };
                }
                let (time, pid) = (random >> (random % 64), random as i32);
                let (mut bytes, mut metadata) = (b"before".to_vec(), Metadata::default());
                let done = short.write(time, Some(pid), &record, &mut metadata, &mut bytes);
                assert_eq!(done, Some(()));
                assert_eq!(
                    bytes[6..],
                    written(&decoder, time, pid, &record),
                    "{record:?}"
                );
            }
        }
    }

    #[test]
    fn a_truncated_record_writes_nothing() {
        let decoder = switches();
        let short = decoder.short().expect("it is short");
        let record = vec![7; decoder.min_size - 1];
        let (mut bytes, mut metadata) = (b"before".to_vec(), Metadata::default());
        assert_eq!(
            short.write(1, None, &record, &mut metadata, &mut bytes),
            None
        );
        assert_eq!(bytes, b"before");
    }

    #[test]
    fn the_first_zero_of_sixteen_bytes_is_found() {
        for length in 0..=16 {
            let mut bytes = [0x01; 16];
            bytes[length.min(15)..].fill(0x80);
            if length < 16 {
                bytes[length] = 0;
            }
            assert_eq!(length_until_nul(u128::from_le_bytes(bytes)), length);
        }
    }
}
