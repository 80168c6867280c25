//! The compact form of the two most frequent events, `sched_switch` and `sched_waking`.
//!
//! Instead of one message per event, a bundle holds one packed array per field, with times as
//! deltas and task names as indices into a table of the same bundle.

use ferretto_proto::fields::ftrace_event_bundle::{self, compact_sched as field};
use ferretto_proto::fields::{ftrace_event, sched_waking_ftrace_event as waking};
use ferretto_wire::{Sink as _, short_varint_bits, varint_bits};

use super::bytes::{Out, until_nul};
use super::decoder::length_until_nul;
use super::field_type::KernelType;
use super::format::EventFormat;
use super::metadata::Metadata;

/// The number of names in a bundle above which the next page starts another bundle.
pub(crate) const NAME_THRESHOLD: usize = 64;

/// The width of a task name in scheduling records.
const COMM: u16 = 16;

/// The offsets of the compact fields in this kernel's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactFormat {
    /// Event id of `sched_switch`.
    pub switch_id: u16,
    /// Event id of `sched_waking`.
    pub waking_id: u16,
    switch: SwitchLayout,
    waking: WakingLayout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SwitchLayout {
    prev_state: usize,
    wide_state: bool,
    next_pid: usize,
    next_prio: usize,
    next_comm: usize,
    size: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WakingLayout {
    pid: usize,
    target_cpu: usize,
    prio: usize,
    comm: usize,
    common_flags: usize,
    size: usize,
}

/// Returns the offset of `name` if it has the expected type.
fn offset(format: &EventFormat, name: &str, wanted: KernelType) -> Option<usize> {
    let field = format.field(name).or_else(|| format.common_field(name))?;
    (KernelType::infer(field)? == wanted).then_some(field.offset.into())
}

fn comm_offset(format: &EventFormat, name: &str) -> Option<usize> {
    let at = offset(format, name, KernelType::FixedString)?;
    (format.field(name)?.size == COMM).then_some(at)
}

impl CompactFormat {
    /// Checks that the kernel's records have the layout that the compact form requires.
    pub fn new(switch: &EventFormat, waking: &EventFormat) -> Option<Self> {
        let state = KernelType::infer(switch.field("prev_state")?)?;
        if !matches!(state, KernelType::Signed(4 | 8)) {
            return None;
        }
        let int = KernelType::Signed(4);
        Some(Self {
            switch_id: switch.id,
            waking_id: waking.id,
            switch: SwitchLayout {
                prev_state: offset(switch, "prev_state", state)?,
                wide_state: state == KernelType::Signed(8),
                next_pid: offset(switch, "next_pid", KernelType::Pid)?,
                next_prio: offset(switch, "next_prio", int)?,
                next_comm: comm_offset(switch, "next_comm")?,
                size: switch.min_size(),
            },
            waking: WakingLayout {
                pid: offset(waking, "pid", KernelType::Pid)?,
                target_cpu: offset(waking, "target_cpu", int)?,
                prio: offset(waking, "prio", int)?,
                comm: comm_offset(waking, "comm")?,
                common_flags: offset(waking, "common_flags", KernelType::Unsigned(1))?,
                size: waking.min_size(),
            },
        })
    }

    /// Returns the next thread of a `sched_switch`.
    #[inline]
    pub(super) fn next_pid(&self, record: &[u8]) -> Option<i32> {
        int(record, self.switch.next_pid).ok()
    }

    /// Writes a `sched_waking` of this time and thread as a `FtraceEvent` with its flags, which
    /// tell if an interrupt woke.
    pub(super) fn write_waking(
        &self,
        (timestamp, waker): (u64, i32),
        record: &[u8],
        metadata: &mut Metadata,
        out: &mut Out<'_>,
    ) -> Result<(), TooShort> {
        let at = &self.waking;
        if record.len() < at.size {
            return Err(TooShort);
        }
        let (pid, prio) = (int(record, at.pid)?, int(record, at.prio)?);
        let cpu = int(record, at.target_cpu)?;
        let comm: [u8; COMM as usize] = chunk(record, at.comm)?;
        let [flags] = chunk(record, at.common_flags)?;
        out.nested(ftrace_event_bundle::EVENT, |event| {
            event.varint(ftrace_event::TIMESTAMP, timestamp);
            event.int(ftrace_event::PID, waker.into());
            event.varint(ftrace_event::COMMON_FLAGS, flags.into());
            event.nested(ftrace_event::SCHED_WAKING, |body| {
                body.bytes(waking::COMM, until_nul(&comm));
                body.int(waking::PID, pid.into());
                body.int(waking::PRIO, prio.into());
                body.int(waking::SUCCESS, 1);
                body.int(waking::TARGET_CPU, cpu.into());
            });
        });
        metadata.add_pid(waker);
        metadata.add_pid(pid);
        Ok(())
    }
}

/// A packed array under construction.
#[derive(Debug, Default)]
struct Packed(Vec<u8>);

impl Packed {
    #[inline]
    fn push(&mut self, value: u64) {
        if value < 0x80 {
            self.0.push(value as u8);
            return;
        }
        self.push_long(value);
    }

    /// Like [`push`](Self::push), without a branch on the size of the value.
    #[inline(always)]
    fn push_long(&mut self, value: u64) {
        if value < 1 << 56 {
            let (bits, length) = short_varint_bits(value);
            let end = self.0.len() + length;
            self.0.extend_from_slice(&bits.to_le_bytes());
            self.0.truncate(end);
        } else {
            let (bits, length) = varint_bits(value);
            self.0.write_short(&bits.to_le_bytes(), length);
        }
    }

    fn write(&mut self, field: u32, out: &mut Out<'_>) {
        out.bytes(field, &self.0);
        self.0.clear();
    }
}

/// Task names of the current bundle.
#[derive(Debug)]
struct Names {
    list: Vec<u128>,
    /// The probable index of a name, by its hash.
    guesses: [u16; 256],
}

impl Default for Names {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            guesses: [0; 256],
        }
    }
}

impl Names {
    /// Returns the index of a name of sixteen bytes. Bytes after the first NUL are ignored.
    #[inline]
    fn index(&mut self, name: [u8; COMM as usize]) -> usize {
        let name = cut_at_nul(u128::from_le_bytes(name));
        let mixed = (name as u64 ^ (name >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed >> 56) as u8;
        let guess = usize::from(self.guesses[usize::from(hash)]);
        if self.list.get(guess) == Some(&name) {
            return guess;
        }
        self.look_up(name, hash)
    }

    #[cold]
    fn look_up(&mut self, name: u128, hash: u8) -> usize {
        let known = self.list.iter().position(|&known| known == name);
        let index = known.unwrap_or_else(|| {
            self.list.push(name);
            self.list.len() - 1
        });
        self.guesses[usize::from(hash)] = index as u16;
        index
    }
}

/// Clears all bytes after the first zero byte.
#[inline]
fn cut_at_nul(name: u128) -> u128 {
    match length_until_nul(name) {
        16 => name,
        length => name & ((1u128 << (8 * length)) - 1),
    }
}

/// The compact arrays of a bundle. Its memory is reused.
#[derive(Debug, Default)]
pub(super) struct CompactBuffer {
    names: Names,
    switches: usize,
    switch_last: u64,
    switch_timestamp: Packed,
    switch_prev_state: Packed,
    switch_next_pid: Packed,
    switch_next_prio: Packed,
    switch_next_comm: Packed,
    wakings: usize,
    waking_last: u64,
    waking_timestamp: Packed,
    waking_pid: Packed,
    waking_target_cpu: Packed,
    waking_prio: Packed,
    waking_comm: Packed,
    waking_flags: Packed,
}

/// A record shorter than the compact layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

#[inline]
fn chunk<const N: usize>(record: &[u8], at: usize) -> Result<[u8; N], TooShort> {
    record
        .get(at..)
        .and_then(|rest| rest.first_chunk().copied())
        .ok_or(TooShort)
}

#[inline]
fn int(record: &[u8], at: usize) -> Result<i32, TooShort> {
    Ok(i32::from_le_bytes(chunk(record, at)?))
}

/// Sign-extends a value to 64 bits for encoding as a varint.
#[inline]
fn extended(value: i32) -> u64 {
    i64::from(value) as u64
}

impl CompactBuffer {
    /// Returns true if there are so many names that lookups become slow.
    pub(super) fn past_threshold(&self) -> bool {
        self.names.list.len() > NAME_THRESHOLD
    }

    #[inline]
    pub(crate) fn add_switch(
        &mut self,
        format: &CompactFormat,
        timestamp: u64,
        record: &[u8],
        metadata: &mut Metadata,
    ) -> Result<(), TooShort> {
        let at = &format.switch;
        if record.len() < at.size {
            return Err(TooShort);
        }
        let state = if at.wide_state {
            i64::from_le_bytes(chunk(record, at.prev_state)?)
        } else {
            int(record, at.prev_state)?.into()
        };
        let pid = int(record, at.next_pid)?;
        let prio = int(record, at.next_prio)?;
        let comm = chunk(record, at.next_comm)?;
        self.switch_timestamp
            .push_long(timestamp.wrapping_sub(self.switch_last));
        self.switch_last = timestamp;
        self.switch_prev_state.push(state as u64);
        self.switch_next_pid.push_long(extended(pid));
        self.switch_next_prio.push(extended(prio));
        self.switch_next_comm.push(self.names.index(comm) as u64);
        self.switches += 1;
        metadata.add_pid(pid);
        Ok(())
    }

    #[inline]
    pub(crate) fn add_waking(
        &mut self,
        format: &CompactFormat,
        timestamp: u64,
        record: &[u8],
        metadata: &mut Metadata,
    ) -> Result<(), TooShort> {
        let at = &format.waking;
        if record.len() < at.size {
            return Err(TooShort);
        }
        let pid = int(record, at.pid)?;
        let cpu = int(record, at.target_cpu)?;
        let prio = int(record, at.prio)?;
        let comm = chunk(record, at.comm)?;
        let [flags] = chunk(record, at.common_flags)?;
        self.waking_timestamp
            .push_long(timestamp.wrapping_sub(self.waking_last));
        self.waking_last = timestamp;
        self.waking_pid.push_long(extended(pid));
        self.waking_target_cpu.push(extended(cpu));
        self.waking_prio.push(extended(prio));
        self.waking_comm.push(self.names.index(comm) as u64);
        self.waking_flags.push(flags.into());
        self.wakings += 1;
        metadata.add_pid(pid);
        Ok(())
    }

    /// Writes the arrays into the bundle and clears them. Writes nothing if they are empty.
    pub(crate) fn write(&mut self, out: &mut Out<'_>) {
        if self.switches == 0 && self.wakings == 0 {
            return;
        }
        out.nested(
            ferretto_proto::fields::ftrace_event_bundle::COMPACT_SCHED,
            |sched| {
                for name in self.names.list.drain(..) {
                    sched.bytes(field::INTERN_TABLE, until_nul(&name.to_le_bytes()));
                }
                if self.switches > 0 {
                    self.switch_timestamp.write(field::SWITCH_TIMESTAMP, sched);
                    self.switch_next_pid.write(field::SWITCH_NEXT_PID, sched);
                    self.switch_prev_state
                        .write(field::SWITCH_PREV_STATE, sched);
                    self.switch_next_prio.write(field::SWITCH_NEXT_PRIO, sched);
                    self.switch_next_comm
                        .write(field::SWITCH_NEXT_COMM_INDEX, sched);
                }
                if self.wakings > 0 {
                    self.waking_timestamp.write(field::WAKING_TIMESTAMP, sched);
                    self.waking_pid.write(field::WAKING_PID, sched);
                    self.waking_target_cpu
                        .write(field::WAKING_TARGET_CPU, sched);
                    self.waking_prio.write(field::WAKING_PRIO, sched);
                    self.waking_comm.write(field::WAKING_COMM_INDEX, sched);
                    self.waking_flags.write(field::WAKING_COMMON_FLAGS, sched);
                }
            },
        );
        (self.switches, self.wakings) = (0, 0);
        (self.switch_last, self.waking_last) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_the_first_nul() {
        let cut = |name: &[u8; 16]| cut_at_nul(u128::from_le_bytes(*name)).to_le_bytes();
        assert_eq!(&cut(b"swapper/0\0\0\0\0\0\0\0"), b"swapper/0\0\0\0\0\0\0\0");
        assert_eq!(
            &cut(b"sh\0garbage\x01\0zzzz"),
            b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(&cut(b"sixteen letters!"), b"sixteen letters!");
        assert_eq!(&cut(b"\0bcdefghijklmnop"), &[0; 16]);
        assert_eq!(
            &cut(b"a\x01\x80\xff\0\x01cdefghijkl"),
            b"a\x01\x80\xff\0\0\0\0\0\0\0\0\0\0\0\0"
        );
    }
}
