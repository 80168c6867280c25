//! A section of frame descriptions whose entries are read on request.

use ferretto_elf::Part;
use gimli::{DebugFrame, EhFrame, EndianSlice, LittleEndian, Vendor};

use crate::registers::Machine;

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The largest size of a function's instructions. The largest known have a few ten kilobytes.
const MAX_PROGRAM: usize = 256 << 10;
/// The largest size of cached common information entries of a file. Functions share them: known
/// files have a few dozen bytes.
const MAX_COMMON: usize = 4096;

/// The two forms of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `.eh_frame`: a relative distance refers to the common entry.
    EhFrame,
    /// `.debug_frame`: an offset in the section refers to it.
    DebugFrame,
}

/// The section.
pub(super) struct Section {
    pub(super) part: Part,
    pub(super) address: u64,
    pub(super) form: Form,
    pub(super) machine: Machine,
}

/// A frame description and its common entry, extracted into a section of their own.
pub(super) struct Excerpt {
    bytes: Vec<u8>,
    /// Determines the meaning of instructions that only one machine has.
    vendor: Vendor,
    /// The offset of the description. The common entry is at offset 0.
    pub(super) description: usize,
    /// The base address of relative addresses in the description: that of the start of the excerpt.
    pub(super) address: u64,
}

impl Excerpt {
    fn new(machine: Machine) -> Self {
        Self {
            bytes: Vec::new(),
            vendor: match machine {
                Machine::Aarch64 => Vendor::AArch64,
                Machine::X86_64 | Machine::Bits32 => Vendor::Default,
            },
            description: 0,
            address: 0,
        }
    }

    pub(super) fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(self.vendor);
        section
    }

    pub(super) fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(self.vendor);
        section
    }
}

/// The prefix of an entry.
struct Prefix {
    /// The size of the whole entry.
    size: u64,
    /// The offset in the entry of its id, which refers to the common entry.
    id_at: usize,
    id: Id,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Common,
    /// A distance or an offset, and its size in bytes.
    Description(u64, usize),
}

/// The largest prefix.
const PREFIX: usize = 20;

/// A buffered window of a part.
pub(super) struct Window<'p> {
    part: &'p Part,
    bytes: Vec<u8>,
    at: u64,
    /// The smallest number of bytes to read.
    ahead: usize,
}

impl<'p> Window<'p> {
    pub(super) fn new(part: &'p Part, ahead: usize) -> Self {
        Self {
            part,
            bytes: Vec::new(),
            at: 0,
            ahead,
        }
    }

    /// Returns up to `most` bytes at offset `at`.
    fn upto(&mut self, at: u64, most: usize) -> Option<&[u8]> {
        let within = |window: &Self| usize::try_from(at.checked_sub(window.at)?).ok();
        let known = within(self)
            .and_then(|start| self.bytes.get(start..))
            .map_or(0, <[u8]>::len);
        if known < most && known as u64 != self.part.size().checked_sub(at)? {
            let read = self
                .part
                .read(at, most.max(self.ahead), &mut self.bytes)
                .ok();
            if read.is_none() {
                self.bytes.clear();
            }
            self.at = at;
            read?;
        }
        let rest = self.bytes.get(within(self)?..)?;
        Some(&rest[..rest.len().min(most)])
    }

    fn exactly(&mut self, at: u64, size: usize) -> Option<&[u8]> {
        self.upto(at, size).filter(|bytes| bytes.len() == size)
    }
}

impl Section {
    /// Extracts the description at `offset`, if `may_read` allows its size.
    pub(super) fn excerpt(
        &self,
        offset: u64,
        may_read: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Excerpt> {
        const USUAL: usize = 256;
        let mut windows = [USUAL; 2].map(|ahead| Window::new(&self.part, ahead));
        let mut excerpt = Excerpt::new(self.machine);
        let [here, common] = &mut windows;
        let (prefix, size) = (self.prefix(here, offset)?, MAX_PROGRAM as u64);
        (prefix.size <= size).then_some(())?;
        self.fill(&mut excerpt, offset, &prefix, [here, common], may_read)?;
        Some(excerpt)
    }

    fn prefix(&self, window: &mut Window<'_>, offset: u64) -> Option<Prefix> {
        let bytes = window.upto(offset, PREFIX)?;
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let long = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (length, id_at) = match word(0)? {
            0xffff_ffff => (long(4)?, 12),
            0 => {
                let (id_at, id) = (4, Id::Common);
                return Some(Prefix { size: 4, id_at, id });
            }
            length => (length.into(), 4),
        };
        let id = match self.form {
            Form::EhFrame => match word(id_at)? {
                0 => Id::Common,
                distance => Id::Description(distance.into(), 4),
            },
            Form::DebugFrame if id_at == 12 => match long(id_at)? {
                u64::MAX => Id::Common,
                position => Id::Description(position, 8),
            },
            Form::DebugFrame => match word(id_at)? {
                u32::MAX => Id::Common,
                position => Id::Description(position.into(), 4),
            },
        };
        let size = length.checked_add(id_at as u64)?;
        Some(Prefix { size, id_at, id })
    }

    fn fill(
        &self,
        excerpt: &mut Excerpt,
        offset: u64,
        prefix: &Prefix,
        [here, common]: [&mut Window<'_>; 2],
        may_read: &mut dyn FnMut(usize) -> bool,
    ) -> Option<()> {
        let Id::Description(reference, id_size) = prefix.id else {
            return None;
        };
        let common_at = match self.form {
            Form::EhFrame => (offset + prefix.id_at as u64).checked_sub(reference)?,
            Form::DebugFrame => reference,
        };
        let common_size = self.prefix(common, common_at)?.size;
        let common_size = usize::try_from(common_size).ok()?;
        let size = usize::try_from(prefix.size).ok()?;
        if common_size > MAX_COMMON || size < prefix.id_at + id_size {
            return None;
        }
        may_read(common_size + size).then_some(())?;
        excerpt.bytes.clear();
        let common = common.exactly(common_at, common_size)?;
        excerpt.bytes.extend_from_slice(common);
        if self.machine == Machine::Aarch64 {
            remove_marks(&mut excerpt.bytes);
        }
        let here = here.exactly(offset, size)?;
        excerpt.bytes.extend_from_slice(here);
        let id = common_size + prefix.id_at;
        let reference = match self.form {
            Form::EhFrame => id as u64,
            Form::DebugFrame => 0,
        };
        excerpt.bytes[id..id + id_size].copy_from_slice(&reference.to_le_bytes()[..id_size]);
        excerpt.description = common_size;
        excerpt.address = self
            .address
            .wrapping_add(offset)
            .wrapping_sub(common_size as u64);
        Some(())
    }

    /// Calls `each` with every description and its offset. Ends at damage, or when `each` or
    /// `may_read` returns `false`.
    pub(super) fn for_each(
        &self,
        may_read: &mut dyn FnMut(usize) -> bool,
        each: &mut dyn FnMut(u64, &Excerpt) -> bool,
    ) {
        const AHEAD: usize = 64 << 10;
        let mut here = Window::new(&self.part, AHEAD);
        let mut common = Window::new(&self.part, MAX_COMMON);
        let mut excerpt = Excerpt::new(self.machine);
        let mut offset = 0_u64;
        while let Some(prefix) = self.prefix(&mut here, offset) {
            let is_usual = prefix.size <= MAX_PROGRAM as u64;
            if is_usual && prefix.id != Id::Common {
                let windows = [&mut here, &mut common];
                let filled = self.fill(&mut excerpt, offset, &prefix, windows, may_read);
                if filled.is_some() && !each(offset, &excerpt) {
                    return;
                }
            }
            let Some(next) = offset.checked_add(prefix.size) else {
                return;
            };
            offset = next;
            if !may_read(4) {
                return;
            }
        }
    }
}

/// Removes marks of arm64 from the augmentation string of a common entry: that the second key signs
/// return addresses (`B`), and that frames are tagged (`G`). They have no data, and do not matter
/// here.
fn remove_marks(entry: &mut Vec<u8>) {
    const IN_64_BITS: &[u8] = &[0xff; 4];
    // The string follows length, id and version.
    let start = if entry.starts_with(IN_64_BITS) { 21 } else { 9 };
    let size = entry.len();
    let string = entry.get(start..).unwrap_or_default();
    let end = string.iter().position(|&byte| byte == 0);
    let Some(end) = end.map(|end| start + end) else {
        return;
    };
    for index in (start..end).rev() {
        if matches!(entry[index], b'B' | b'G') {
            entry.remove(index);
        }
    }
    // Zeros at the end are instructions that do nothing.
    entry.resize(size, 0);
}
