//! The starts of functions without symbols, from the unwind tables, which stripped programs have,
//! too.

use std::ops::Range;

use ferretto_elf::{Class, Elf};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, UnwindSection as _};

use super::image::Image;

/// The largest section to read.
const MAX_SECTION: u64 = 256 << 20;

/// Returns the start of the function of each of `addresses`, which are addresses of the files.
pub(super) fn starts(images: &[Image], addresses: &[u64]) -> Vec<Option<u64>> {
    let mut starts = vec![None; addresses.len()];
    for image in images {
        let Some(tables) = Tables::read(&image.elf) else {
            continue;
        };
        tables.find(addresses, &mut starts);
    }
    starts
}

/// Returns the addresses of the function that contains an address of a file.
pub(super) fn range(elf: &Elf, address: u64) -> Option<Range<u64>> {
    let tables = Tables::read(elf)?;
    let mut found = None;
    tables.each(&[address], |_, range| found = Some(range));
    found
}

/// The unwind tables of a file.
struct Tables {
    header: Vec<u8>,
    frames: Vec<u8>,
    bases: BaseAddresses,
    address_size: u8,
}

impl Tables {
    fn read(elf: &Elf) -> Option<Self> {
        let section = |name| {
            let section = elf
                .section_header(name)
                .filter(|section| section.has_data())?;
            let data = elf.section_data(section, MAX_SECTION).ok()?;
            Some((section.address, data))
        };
        let (header_address, header) = section(".eh_frame_hdr")?;
        let (frames_address, frames) = section(".eh_frame")?;
        let text = elf.section_header(".text").map_or(0, |text| text.address);
        Some(Self {
            header,
            frames,
            bases: BaseAddresses::default()
                .set_eh_frame_hdr(header_address)
                .set_eh_frame(frames_address)
                .set_text(text),
            address_size: match elf.class() {
                Class::Bits32 => 4,
                Class::Bits64 => 8,
            },
        })
    }

    fn find(&self, addresses: &[u64], starts: &mut [Option<u64>]) {
        self.each(addresses, |index, range| {
            starts[index].get_or_insert(range.start);
        });
    }

    /// Calls `found` with the index of each address and the addresses of its function.
    fn each(&self, addresses: &[u64], mut found: impl FnMut(usize, Range<u64>)) {
        let header = EhFrameHdr::new(&self.header, LittleEndian);
        let Ok(header) = header.parse(&self.bases, self.address_size) else {
            return;
        };
        let Some(table) = header.table() else { return };
        let mut frames = EhFrame::from(EndianSlice::new(&self.frames, LittleEndian));
        frames.set_address_size(self.address_size);
        for (index, address) in addresses.iter().enumerate() {
            let entry =
                table.fde_for_address(&frames, &self.bases, *address, EhFrame::cie_from_offset);
            if let Ok(entry) = entry {
                let start = entry.initial_address();
                found(index, start..start.saturating_add(entry.len()));
            }
        }
    }
}
