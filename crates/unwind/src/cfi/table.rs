//! The unwind tables of a file.

use std::cell::RefCell;

use ferretto_elf::{Elf, ElfError, Part, SectionHeader};
use gimli::{BaseAddresses, FrameDescriptionEntry, UnwindContext, UnwindSection, UnwindTableRow};

use super::evaluate::{self, Context};
use super::header::Header;
use super::index::Index;
use super::lower;
use super::rule::{Kind, Rule};
use super::section::{Form, Section, Slice};
use crate::budget::Budget;
use crate::error::UnwindError;
use crate::memory::Memory;
use crate::registers::{Machine, Registers};

type Fde<'a> = FrameDescriptionEntry<Slice<'a>>;

/// The largest size of a table; larger ones are ignored. The largest known have a few dozen
/// megabytes.
const MAX_SECTION: u64 = 128 << 20;
/// The largest size of a table in memory: of compressed tables, and those of files that may vanish.
const MAX_LOADED: u64 = 8 << 20;

const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

thread_local! {
    /// Reused memory for the evaluation of rows, about 20 KiB.
    static SCRATCH: RefCell<UnwindContext<usize>> = RefCell::new(UnwindContext::new());
}

/// The index of frame descriptions in `.eh_frame`.
enum Lookup {
    /// The linker's table.
    Header(Header),
    /// An index built here.
    Index(Index),
}

/// An index of the unwind tables of a file. The tables are read on request.
pub(crate) struct Table {
    machine: Machine,
    bases: BaseAddresses,
    eh_frame: Option<(Section, Lookup)>,
    debug_frame: Option<(Section, Index)>,
    /// The number of bytes of sections in memory.
    loaded: usize,
}

/// Reads the sections of a file.
struct Source<'e> {
    elf: &'e Elf,
    machine: Machine,
    /// Set if the sections have to be read now because the file may vanish.
    may_vanish: bool,
    loaded: usize,
}

impl Source<'_> {
    fn section(&mut self, header: &SectionHeader) -> Result<Part, ElfError> {
        if header.is_compressed() {
            let bytes = self.elf.section_data(header, MAX_LOADED)?;
            self.loaded += bytes.capacity();
            return Ok(Part::of_bytes(bytes));
        }
        self.part(self.elf.part(header.offset, header.size))
    }

    fn part(&mut self, part: Part) -> Result<Part, ElfError> {
        let (size, limit) = (part.size(), MAX_SECTION);
        if size > limit {
            let what = "unwind table";
            return Err(ElfError::TooLarge { what, size, limit });
        }
        if !self.may_vanish {
            return Ok(part);
        }
        let part = part.load(MAX_LOADED)?;
        self.loaded += size as usize;
        Ok(part)
    }
}

impl Table {
    /// Finds the tables of a file. Without tables the index is empty. If the file `may_vanish`,
    /// reads all tables now.
    ///
    /// # Errors
    /// Fails if the tables are too large or cannot be read.
    pub(crate) fn read(elf: &Elf, machine: Machine, may_vanish: bool) -> Result<Self, ElfError> {
        let mut source = Source {
            elf,
            machine,
            may_vanish,
            loaded: 0,
        };
        let found = match Self::eh_sections(&mut source)? {
            Some(found) => Some(found),
            None => Self::eh_segment(&mut source)?,
        };
        let mut bases = BaseAddresses::default();
        if let Some(text) = elf.section_header(".text") {
            bases = bases.set_text(text.address);
        }
        if let Some(got) = elf.section_header(".got") {
            bases = bases.set_got(got.address);
        }
        let eh_frame = found.map(|(section, header)| {
            let lookup = match header {
                Some(header) => Lookup::Header(header),
                None => Lookup::Index(Index::build(&section, &bases)),
            };
            (section, lookup)
        });
        let debug_frame = match elf.section_header(".debug_frame") {
            Some(header) if header.has_data() && header.size > 0 => {
                let section = Section {
                    part: source.section(header)?,
                    address: 0,
                    form: Form::DebugFrame,
                    machine,
                };
                let index = Index::build(&section, &bases);
                Some((section, index))
            }
            _ => None,
        };
        Ok(Self {
            machine,
            bases,
            eh_frame,
            debug_frame,
            loaded: source.loaded,
        })
    }

    /// Finds `.eh_frame` and `.eh_frame_hdr` by section headers.
    fn eh_sections(source: &mut Source<'_>) -> Result<Option<(Section, Option<Header>)>, ElfError> {
        let mut part = |name| match source.elf.section_header(name) {
            Some(header) if header.has_data() && header.size > 0 => {
                Ok::<_, ElfError>(Some((source.section(header)?, header.address)))
            }
            _ => Ok(None),
        };
        let Some((eh_frame, address)) = part(".eh_frame")? else {
            return Ok(None);
        };
        let header = part(".eh_frame_hdr")?;
        let header = header.and_then(|(part, address)| Header::new(part, address));
        let form = Form::EhFrame;
        let section = Section {
            part: eh_frame,
            address,
            form,
            machine: source.machine,
        };
        Ok(Some((section, header)))
    }

    /// Finds them by program headers, for files without sections: the header points to the table,
    /// which ends at the end of its segment at the latest.
    fn eh_segment(source: &mut Source<'_>) -> Result<Option<(Section, Option<Header>)>, ElfError> {
        let elf = source.elf;
        let segments = elf.segments().iter();
        let segment = segments
            .clone()
            .find(|segment| segment.kind == PT_GNU_EH_FRAME);
        let Some(segment) = segment else {
            return Ok(None);
        };
        let part = source.part(elf.part(segment.offset, segment.file_size))?;
        let Some(header) = Header::new(part, segment.address) else {
            return Ok(None);
        };
        let address = header.eh_frame;
        let mut homes = segments.filter(|segment| segment.is_loaded());
        let home = homes.find(|home| address.wrapping_sub(home.address) < home.file_size);
        let found = home.and_then(|home| {
            let within = address - home.address;
            let offset = home.offset.checked_add(within)?;
            let most = if source.may_vanish {
                MAX_LOADED
            } else {
                MAX_SECTION
            };
            Some(elf.part(offset, (home.file_size - within).min(most)))
        });
        let Some(part) = found else {
            return Ok(None);
        };
        let section = Section {
            part: source.part(part)?,
            address,
            form: Form::EhFrame,
            machine: source.machine,
        };
        Ok(Some((section, Some(header))))
    }

    /// Returns the memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        let lookup = |(_, lookup): &(_, Lookup)| match lookup {
            Lookup::Header(header) => header.memory(),
            Lookup::Index(index) => index.memory(),
        };
        let indexed = |(_, index): &(_, Index)| index.memory();
        let eh_frame = self.eh_frame.as_ref().map_or(0, lookup);
        let debug_frame = self.debug_frame.as_ref().map_or(0, indexed);
        size_of::<Self>() + self.loaded + eh_frame + debug_frame
    }

    /// Returns the rule for an address of the file.
    pub(crate) fn rule(&self, address: u64, budget: &mut Budget) -> Rule {
        self.at(address, budget, &mut LowerRow(self.machine))
            .unwrap_or(Rule::bare(Kind::Missing))
    }

    /// Evaluates the row for `address`, if no rule can represent it.
    pub(crate) fn step(
        &self,
        address: u64,
        registers: &Registers,
        memory: &mut Memory<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Registers>, UnwindError> {
        // The row is evaluated again each time, so each time has a cost.
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
        if let Some((section, lookup)) = &self.eh_frame {
            let offset = match lookup {
                Lookup::Header(header) => header
                    .find(address)
                    .and_then(|entry| entry.checked_sub(section.address)),
                Lookup::Index(index) => index.find(address),
            };
            let found =
                offset.and_then(|offset| self.look(section, offset, address, budget, visitor));
            if found.is_some() {
                return found;
            }
        }
        let (section, index) = self.debug_frame.as_ref()?;
        let offset = index.find(address)?;
        self.look(section, offset, address, budget, visitor)
    }

    /// Reads the frame description at `offset` of the section.
    fn look<V: Visitor>(
        &self,
        section: &Section,
        offset: u64,
        address: u64,
        budget: &mut Budget,
        visitor: &mut V,
    ) -> Option<V::Output> {
        let excerpt = section.excerpt(offset, &mut |bytes| budget.program(bytes))?;
        let at = excerpt.description;
        match section.form {
            Form::EhFrame => {
                let section = excerpt.eh_frame();
                let bases = self.bases.clone().set_eh_frame(excerpt.address);
                let fde =
                    section.fde_from_offset(&bases, at.into(), UnwindSection::cie_from_offset);
                visit(&section, &bases, fde.ok()?, address, visitor)
            }
            Form::DebugFrame => {
                let section = excerpt.debug_frame();
                let bases = &self.bases;
                let fde = section.fde_from_offset(bases, at.into(), UnwindSection::cie_from_offset);
                visit(&section, bases, fde.ok()?, address, visitor)
            }
        }
    }
}

fn visit<'a, S: UnwindSection<Slice<'a>>, V: Visitor>(
    section: &S,
    bases: &BaseAddresses,
    fde: Fde<'a>,
    address: u64,
    visitor: &mut V,
) -> Option<V::Output> {
    if !fde.contains(address) {
        return None;
    }
    SCRATCH.with_borrow_mut(|scratch| {
        let row = fde
            .unwind_info_for_address(section, bases, scratch, address)
            .ok()?;
        let entry = Entry {
            row,
            encoding: fde.cie().encoding(),
            signal: fde.is_signal_trampoline(),
        };
        Some(visitor.visit(section, &entry))
    })
}

/// A row and its context.
struct Entry<'r> {
    row: &'r UnwindTableRow<usize>,
    encoding: gimli::Encoding,
    signal: bool,
}

/// A callback for a row, which exists only in scratch memory.
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
