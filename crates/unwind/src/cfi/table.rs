//! The unwind tables of a file.

use std::cell::RefCell;

use ferretto_elf::{Elf, ElfError};
use gimli::{
    BaseAddresses, DebugFrame, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection, UnwindTableRow,
};

use super::evaluate::{self, Context};
use super::header::Header;
use super::index::Index;
use super::lower;
use super::rule::{Kind, Rule};
use crate::budget::Budget;
use crate::error::UnwindError;
use crate::memory::Memory;
use crate::registers::{Machine, Registers};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// A file whose tables are larger than this has none for us. The largest known have some dozen megabytes.
const MAX_SECTION: u64 = 128 << 20;
/// The instructions of a function, and those common to many. The largest known have some ten kilobytes.
const MAX_PROGRAM: usize = 256 << 10;

const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

thread_local! {
    /// Where rows are worked out: twenty kilobytes that need not be made anew each time.
    static SCRATCH: RefCell<UnwindContext<usize>> = RefCell::new(UnwindContext::new());
}

/// Bytes of a section and the address of the first.
#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    address: u64,
}

/// How frame descriptions in `.eh_frame` are found.
enum Lookup {
    /// By the table the linker made.
    Header(Header),
    /// By one made here.
    Index(Index),
}

/// The unwind tables of a file: all that is needed of it to unwind.
pub(crate) struct Table {
    machine: Machine,
    bases: BaseAddresses,
    eh_frame: Option<(Bytes, Lookup)>,
    debug_frame: Option<(Bytes, Index)>,
}

impl Table {
    /// Reads them. A file without tables gives an empty one.
    ///
    /// # Errors
    /// If there are some, but they are too large, or cannot be read.
    pub(crate) fn read(elf: &Elf, machine: Machine) -> Result<Self, ElfError> {
        let (eh_frame, header) = match Self::eh_sections(elf)? {
            Some(found) => found,
            None => Self::eh_segment(elf)?.unwrap_or_default(),
        };
        let mut bases = BaseAddresses::default()
            .set_eh_frame(eh_frame.address)
            .set_eh_frame_hdr(header.as_ref().map_or(0, |header| header.address));
        if let Some(text) = elf.section_header(".text") {
            bases = bases.set_text(text.address);
        }
        if let Some(got) = elf.section_header(".got") {
            bases = bases.set_got(got.address);
        }
        let lookup = match header {
            Some(header) => Lookup::Header(header),
            None => Lookup::Index(Index::build(&eh_frame_of(&eh_frame), &bases)),
        };
        let debug_frame = match elf.section_header(".debug_frame") {
            Some(header) if header.has_data() && header.size > 0 => {
                let bytes = Bytes {
                    bytes: elf.section_data(header, MAX_SECTION)?,
                    address: 0,
                };
                let index = Index::build(&debug_frame_of(&bytes), &bases);
                Some((bytes, index))
            }
            _ => None,
        };
        let eh_frame = (!eh_frame.bytes.is_empty()).then_some((eh_frame, lookup));
        Ok(Self {
            machine,
            bases,
            eh_frame,
            debug_frame,
        })
    }

    /// `.eh_frame` and `.eh_frame_hdr` as the sections say.
    fn eh_sections(elf: &Elf) -> Result<Option<(Bytes, Option<Header>)>, ElfError> {
        let read = |name| match elf.section_header(name) {
            Some(header) if header.has_data() && header.size > 0 => {
                let bytes = elf.section_data(header, MAX_SECTION)?;
                let address = header.address;
                Ok::<_, ElfError>(Some(Bytes { bytes, address }))
            }
            _ => Ok(None),
        };
        let Some(eh_frame) = read(".eh_frame")? else {
            return Ok(None);
        };
        let header = read(".eh_frame_hdr")?;
        let header = header.and_then(|header| Header::new(header.bytes, header.address));
        Ok(Some((eh_frame, header)))
    }

    /// The same as the segments say, where there are no sections: the header points to the table, which reaches at most
    /// to its segment's end.
    fn eh_segment(elf: &Elf) -> Result<Option<(Bytes, Option<Header>)>, ElfError> {
        let segments = elf.segments().iter();
        let segment = segments
            .clone()
            .find(|segment| segment.kind == PT_GNU_EH_FRAME);
        let Some(segment) = segment else {
            return Ok(None);
        };
        let bytes = elf.data(segment.offset, segment.file_size, MAX_SECTION)?;
        let Some(header) = Header::new(bytes, segment.address) else {
            return Ok(None);
        };
        let found = header.eh_frame().and_then(|address| {
            let mut homes = segments.filter(|segment| segment.is_loaded());
            let home = homes.find(|home| address.wrapping_sub(home.address) < home.file_size)?;
            let within = address - home.address;
            let offset = home.offset.checked_add(within)?;
            Some((address, offset, home.file_size - within))
        });
        let Some((address, offset, size)) = found else {
            return Ok(None);
        };
        let bytes = elf.data(offset, size.min(MAX_SECTION), MAX_SECTION)?;
        Ok(Some((Bytes { bytes, address }, Some(header))))
    }

    /// The bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let eh_frame = self.eh_frame.as_ref().map_or(0, |(bytes, lookup)| {
            bytes.bytes.capacity()
                + match lookup {
                    Lookup::Header(header) => header.memory(),
                    Lookup::Index(index) => index.memory(),
                }
        });
        let debug_frame = self
            .debug_frame
            .as_ref()
            .map_or(0, |(bytes, index)| bytes.bytes.capacity() + index.memory());
        eh_frame + debug_frame
    }

    /// The rule for `address` (as the file states addresses).
    pub(crate) fn rule(&self, address: u64, budget: &mut Budget) -> Rule {
        self.at(address, budget, &mut LowerRow(self.machine))
            .unwrap_or(Rule::bare(Kind::Missing))
    }

    /// Follows the row for `address` when no rule can say what it does.
    pub(crate) fn step(
        &self,
        address: u64,
        registers: &Registers,
        memory: &mut Memory<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Registers>, UnwindError> {
        // The row is worked out again each time, so each time it costs.
        let mut programs = budget.split_programs();
        let context = &mut Context { memory, budget };
        let step = self
            .at(address, &mut programs, &mut StepRow { registers, context })
            .unwrap_or(Err(UnwindError::UnwindInfo));
        budget.put_back(&programs);
        step
    }

    fn at<V: Visitor>(
        &self,
        address: u64,
        budget: &mut Budget,
        visitor: &mut V,
    ) -> Option<V::Output> {
        if let Some((bytes, lookup)) = &self.eh_frame {
            let section = eh_frame_of(bytes);
            let offset = match lookup {
                Lookup::Header(header) => header
                    .find(address)
                    .and_then(|fde| usize::try_from(fde.checked_sub(bytes.address)?).ok()),
                Lookup::Index(index) => index.find(address),
            };
            let fde = offset.and_then(|offset| {
                section
                    .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
                    .ok()
            });
            let found = self.visit(&section, fde, address, budget, visitor);
            if found.is_some() {
                return found;
            }
        }
        let (bytes, index) = self.debug_frame.as_ref()?;
        let section = debug_frame_of(bytes);
        let offset = index.find(address)?;
        let fde = section
            .fde_from_offset(&self.bases, offset.into(), DebugFrame::cie_from_offset)
            .ok();
        self.visit(&section, fde, address, budget, visitor)
    }

    fn visit<'a, S: UnwindSection<Slice<'a>>, V: Visitor>(
        &self,
        section: &S,
        fde: Option<Fde<'a>>,
        address: u64,
        budget: &mut Budget,
        visitor: &mut V,
    ) -> Option<V::Output> {
        let fde = fde.filter(|fde| fde.contains(address))?;
        let bytes = fde.entry_len().saturating_add(fde.cie().entry_len());
        if bytes > MAX_PROGRAM || !budget.program(bytes) {
            return None;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let row = fde
                .unwind_info_for_address(section, &self.bases, scratch, address)
                .ok()?;
            let entry = Entry {
                row,
                encoding: fde.cie().encoding(),
                signal: fde.is_signal_trampoline(),
            };
            Some(visitor.visit(section, &entry))
        })
    }
}

/// A row and what of its surroundings matters.
struct Entry<'r> {
    row: &'r UnwindTableRow<usize>,
    encoding: gimli::Encoding,
    signal: bool,
}

/// What is done with a row, which lives only in scratch memory.
trait Visitor {
    type Output;
    fn visit<'a, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        entry: &Entry<'_>,
    ) -> Self::Output;
}

struct LowerRow(Machine);

impl Visitor for LowerRow {
    type Output = Rule;
    fn visit<'a, S: UnwindSection<Slice<'a>>>(&mut self, section: &S, entry: &Entry<'_>) -> Rule {
        lower::rule(section, entry.row, self.0, entry.encoding, entry.signal)
    }
}

struct StepRow<'s, 'm, 'f> {
    registers: &'s Registers,
    context: &'s mut Context<'m, 'f>,
}

impl Visitor for StepRow<'_, '_, '_> {
    type Output = Result<Option<Registers>, UnwindError>;
    fn visit<'a, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        entry: &Entry<'_>,
    ) -> Self::Output {
        evaluate::step(
            section,
            entry.row,
            entry.encoding,
            self.registers,
            self.context,
        )
    }
}

fn eh_frame_of(bytes: &Bytes) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(&bytes.bytes, LittleEndian);
    section.set_address_size(8);
    section
}

fn debug_frame_of(bytes: &Bytes) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(&bytes.bytes, LittleEndian);
    section.set_address_size(8);
    section
}
