//! The memory of a target as a walk sees it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::budget::Budget;

const PAGE: usize = 4096;
/// The number of pages cached during a walk.
const PAGES: usize = 4;

/// Recently read pages of the target's memory. They are valid for one walk, since their contents
/// change.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: [Option<(u64, Box<[u8; PAGE]>)>; PAGES],
    next: usize,
}

impl Pages {
    pub(crate) fn forget(&mut self) {
        for (address, _) in self.pages.iter_mut().flatten() {
            // No page starts there; the buffers are reused.
            *address = 1;
        }
    }
}

/// The copied stack, and `/proc/PID/mem` around it.
pub(crate) struct Memory<'a> {
    stack: &'a [u8],
    stack_start: u64,
    /// The first offset in the stack without eight bytes after it.
    words: u64,
    /// The live memory; `None` if the process is gone.
    file: Option<&'a File>,
    pages: &'a mut Pages,
    /// Set if memory after the copied stack may be read in its current state.
    beyond: bool,
    /// Set if a read was refused because it was after the copied stack.
    cut: bool,
}

/// The distance after the copied stack within which an address counts as part of the stack.
const STACK_REACH: u64 = 64 << 20;

impl<'a> Memory<'a> {
    /// Creates a view of the memory. `beyond` allows reads after the copied stack from the live
    /// process.
    pub(crate) fn new(
        stack: &'a [u8],
        stack_start: u64,
        file: Option<&'a File>,
        pages: &'a mut Pages,
        beyond: bool,
    ) -> Self {
        pages.forget();
        Self {
            stack,
            stack_start,
            words: (stack.len() as u64).saturating_sub(7),
            file,
            pages,
            beyond,
            cut: false,
        }
    }

    /// Reads eight bytes at `address`.
    #[inline]
    pub(crate) fn word(&mut self, address: u64, budget: &mut Budget) -> Option<u64> {
        let offset = address.wrapping_sub(self.stack_start);
        if offset < self.words {
            let at = offset as usize;
            let bytes = self.stack.get(at..at + 8)?;
            return Some(u64::from_le_bytes(bytes.try_into().ok()?));
        }
        let mut bytes = [0; 8];
        self.read(address, &mut bytes, budget)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Fills `buffer` with the bytes at `address`.
    #[cold]
    pub(crate) fn read(
        &mut self,
        address: u64,
        buffer: &mut [u8],
        budget: &mut Budget,
    ) -> Option<()> {
        let end = self.stack_start.saturating_add(self.stack.len() as u64);
        let offset = usize::try_from(address.wrapping_sub(self.stack_start)).ok()?;
        if let Some(bytes) = self
            .stack
            .get(offset..)
            .and_then(|rest| rest.get(..buffer.len()))
        {
            buffer.copy_from_slice(bytes);
            return Some(());
        }
        let last = address.checked_add(buffer.len() as u64)?;
        let after = address >= self.stack_start && address < end.saturating_add(STACK_REACH);
        if !self.beyond && after && last > end {
            self.cut = true;
            return None;
        }
        self.live(address, buffer, budget)
    }

    /// Returns true if a read after the copied stack was refused.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Returns the end of the copied stack.
    pub(crate) fn stack_end(&self) -> u64 {
        self.stack_start.saturating_add(self.stack.len() as u64)
    }

    /// Allows reads after the copied stack.
    pub(crate) fn go_beyond(&mut self) {
        self.beyond = true;
        self.cut = false;
    }

    fn live(&mut self, address: u64, buffer: &mut [u8], budget: &mut Budget) -> Option<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.checked_add(done as u64)?;
            let offset = (at % PAGE as u64) as usize;
            let page = self.page(at - offset as u64, budget)?;
            let step = (PAGE - offset).min(buffer.len() - done);
            buffer[done..done + step].copy_from_slice(&page[offset..offset + step]);
            done += step;
        }
        Some(())
    }

    fn page(&mut self, start: u64, budget: &mut Budget) -> Option<&[u8; PAGE]> {
        let file = self.file?;
        let known = self
            .pages
            .pages
            .iter()
            .position(|page| page.as_ref().is_some_and(|page| page.0 == start));
        let index = match known {
            Some(index) => index,
            None => {
                if !budget.page() {
                    return None;
                }
                let index = self.pages.next;
                self.pages.next = (index + 1) % PAGES;
                let (address, bytes) =
                    self.pages.pages[index].get_or_insert_with(|| (1, Box::new([0; PAGE])));
                *address = 1;
                i64::try_from(start).ok()?;
                file.read_exact_at(&mut bytes[..], start).ok()?;
                *address = start;
                index
            }
        };
        self.pages.pages[index].as_ref().map(|page| &*page.1)
    }
}
