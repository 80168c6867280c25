//! Finding the frame description of an address where the file has no table for that.

use gimli::{BaseAddresses, CieOrFde, EndianSlice, LittleEndian, UnwindOffset, UnwindSection};

/// Frame descriptions beyond these are not found.
const MAX_ENTRIES: usize = 4 << 20;

/// First addresses and positions of frame descriptions, sorted.
pub(crate) struct Index(Vec<(u64, u32)>);

impl Index {
    /// Goes through a whole section. What is damaged ends it; what came before is good.
    pub(crate) fn build<'a, S>(section: &S, bases: &BaseAddresses) -> Self
    where
        S: UnwindSection<EndianSlice<'a, LittleEndian>>,
    {
        let mut entries = Vec::new();
        let mut last_cie: Option<gimli::CommonInformationEntry<_>> = None;
        let mut iter = section.entries(bases);
        while let Ok(Some(entry)) = iter.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let fde = partial.parse(|section, bases, offset| {
                let at: usize = UnwindOffset::into(offset);
                match &last_cie {
                    Some(cie) if cie.offset() == at => Ok(cie.clone()),
                    _ => {
                        let cie = section.cie_from_offset(bases, offset)?;
                        last_cie = Some(cie.clone());
                        Ok(cie)
                    }
                }
            });
            let Ok(fde) = fde else { continue };
            if let Ok(offset) = u32::try_from(fde.offset())
                && fde.len() > 0
            {
                entries.push((fde.initial_address(), offset));
            }
            if entries.len() >= MAX_ENTRIES {
                break;
            }
        }
        entries.sort_unstable();
        entries.shrink_to_fit();
        Self(entries)
    }

    /// Position of the frame description that begins at `address` or last before it.
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let after = self.0.partition_point(|entry| entry.0 <= address);
        Some(self.0.get(after.checked_sub(1)?)?.1 as usize)
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u32)>()
    }
}
