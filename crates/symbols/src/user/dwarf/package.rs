//! Packages (`.dwp`), which contain the `.dwo` files of a program, indexed by unit ids.

use std::ops::Range;
use std::path::Path;

use gimli::{DebugCuIndex, IndexSectionId, LittleEndian};

use super::budget::{Budget, Problem};
use crate::user::image::Image;

/// The largest size of an index, which has a few dozen bytes for each unit.
const MAX_INDEX: u64 = 64 << 20;
/// The assumed cost of a lookup. A hostile index makes lookups slow, so a high cost makes the time
/// be checked often.
const LOOKUP: u64 = 1 << 13;

/// An open package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) image: Image,
    index: Vec<u8>,
}

/// The parts of a package's sections that belong to a unit; `None` is a whole section.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) info: Option<Range<u64>>,
    pub(super) abbrev: Option<Range<u64>>,
    pub(super) string_offsets: Option<Range<u64>>,
    pub(super) range_lists: Option<Range<u64>>,
}

impl Package {
    /// Opens the package of the program at `path`, or of the program whose debug file is at `path`;
    /// `None` if there is none.
    pub(super) fn beside(path: &Path) -> Option<Self> {
        let program = match path.extension() {
            Some(ending) if ending == "debug" => path.with_extension(""),
            _ => path.to_owned(),
        };
        let mut name = program.into_os_string();
        name.push(".dwp");
        let image = Image::open(Path::new(&name)).ok()?;
        let header = image.elf.section_header(".debug_cu_index")?;
        let index = image.elf.section_data(header, MAX_INDEX).ok()?;
        Some(Self { image, index })
    }

    /// Returns the parts of the unit with this id; `None` if the package lacks it.
    pub(super) fn find(&self, id: u64, budget: &Budget) -> Result<Option<Parts>, Problem> {
        budget.spend(LOOKUP)?;
        let index = DebugCuIndex::new(&self.index, LittleEndian).index()?;
        let Some(row) = index.find(id) else {
            return Ok(None);
        };
        // A section without a column has no bytes of the unit.
        let mut parts = Parts {
            info: Some(0..0),
            abbrev: Some(0..0),
            string_offsets: Some(0..0),
            range_lists: Some(0..0),
        };
        for part in index.sections(row)? {
            let start = u64::from(part.offset);
            let range = Some(start..start + u64::from(part.size));
            match part.section {
                IndexSectionId::DebugInfo => parts.info = range,
                IndexSectionId::DebugAbbrev => parts.abbrev = range,
                IndexSectionId::DebugStrOffsets => parts.string_offsets = range,
                IndexSectionId::DebugRngLists => parts.range_lists = range,
                _ => {}
            }
        }
        Ok(Some(parts))
    }
}
