//! Split units, whose larger part is in a `.dwo` file of the compiler or in the package of the
//! program (`.dwp`).

use std::cell::OnceCell;
use std::path::Path;

use ferretto_elf::Elf;

use super::budget::{Budget, Problem};
use super::package::{Package, Parts};
use super::section::Section;
use super::unit::{self, Text, Unit};
use super::{Dwarf, Sections, SourceLocation};
use crate::user::image::Image;

const MISSING: Problem = Problem::Inconsistent("a part is in a .dwo file that is missing");

impl<'e> Dwarf<'e> {
    /// Returns the functions at `addresses` of a split unit.
    pub(super) fn locate_in_split(
        &self,
        unit: &Unit,
        name: &Text,
        addresses: &[u64],
        budget: &Budget,
    ) -> Result<Vec<Vec<SourceLocation>>, Problem> {
        let package = self.package.get_or_init(|| Package::beside(&self.path));
        let packed = package.as_ref().zip(unit.header.split_id);
        if let Some((package, id)) = packed
            && let Some(parts) = package.find(id, budget)?
        {
            let (entries, of_entries) = self.open_split(&package.image.elf, parts, unit, budget)?;
            return self.source_locations(&entries, &of_entries, unit, addresses, budget);
        }
        let file = self.split_file(unit, name, budget)?;
        let (entries, of_entries) = self.open_split(&file.elf, Parts::default(), unit, budget)?;
        self.source_locations(&entries, &of_entries, unit, addresses, budget)
    }

    /// Opens the file with the rest of `unit`.
    fn split_file(&self, unit: &Unit, name: &Text, budget: &Budget) -> Result<Image, Problem> {
        let name = self.text(unit, name)?;
        let folder = unit.folder.as_ref().map(|folder| self.text(unit, folder));
        let folder = folder.transpose()?.unwrap_or_default();
        let last = Path::new(&name).file_name().unwrap_or_default();
        let beside = self.path.parent().unwrap_or(Path::new("/"));
        // An absolute name replaces the folder.
        let candidates = [
            Path::new(&folder).join(&name),
            beside.join(&name),
            beside.join(last),
        ];
        for candidate in candidates {
            budget.spend(1)?;
            let Ok(image) = Image::open(&candidate) else {
                continue;
            };
            let info = Section::open(&image.elf, ".debug_info.dwo")?;
            let header = unit::Header::read(&info, 0, budget);
            let fits = |header: unit::Header| header.split_id == unit.header.split_id;
            if header.is_ok_and(fits) {
                return Ok(image);
            }
        }
        Err(MISSING)
    }

    /// Opens the rest of `unit` in these parts of `elf`.
    fn open_split<'s>(
        &'s self,
        elf: &'s Elf,
        parts: Parts,
        unit: &Unit,
        budget: &Budget,
    ) -> Result<(Dwarf<'s>, Unit), Problem> {
        let program: &'s Elf = self.sections.info.elf;
        let sections = Sections {
            info: Section::open(elf, ".debug_info.dwo")?.part(parts.info)?,
            abbrev: Section::open(elf, ".debug_abbrev.dwo")?.part(parts.abbrev)?,
            strings: Section::open(elf, ".debug_str.dwo")?,
            line_strings: Section::open(elf, ".debug_line_str.dwo")?,
            string_offsets: Section::open(elf, ".debug_str_offsets.dwo")?
                .part(parts.string_offsets)?,
            // The linker assigns addresses, so they are in the program.
            addresses: Section::open(program, ".debug_addr")?,
            ranges: Section::open(program, ".debug_ranges")?,
            range_lists: Section::open(elf, ".debug_rnglists.dwo")?.part(parts.range_lists)?,
            lines: Section::open(program, ".debug_line")?,
        };
        let mut of_entries = Unit::read(&sections, 0, budget)?.ok_or(MISSING)?;
        of_entries.address_base = unit.address_base;
        of_entries.base = unit.base;
        let (units, _) = unit::offsets(&sections.info, budget);
        let dwarf = Dwarf {
            sections,
            units,
            supplementary: None,
            path: self.path.clone(),
            package: OnceCell::new(),
        };
        Ok((dwarf, of_entries))
    }
}
