//! The cost of one walk.

/// Bytes of call frame programs interpreted in a walk. A usual function has some dozen.
const PROGRAM_BYTES: usize = 1 << 20;
/// Operations of expressions evaluated in a walk. A usual expression has fewer than ten.
const OPERATIONS: u32 = 10_000;
/// Pages of the target's memory read in a walk. The stack is usually in the sample.
const PAGES: u32 = 512;

/// The rest of a walk's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    program_bytes: usize,
    operations: u32,
    pages: u32,
    exhausted: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            program_bytes: PROGRAM_BYTES,
            operations: OPERATIONS,
            pages: PAGES,
            exhausted: false,
        }
    }
}

impl Budget {
    /// Returns whether a program of so many bytes may be interpreted, and charges it.
    pub(crate) fn program(&mut self, bytes: usize) -> bool {
        let rest = self.program_bytes.checked_sub(bytes);
        self.program_bytes = rest.unwrap_or(self.program_bytes);
        self.exhausted |= rest.is_none();
        rest.is_some()
    }

    /// A budget of its own for programs, with the rest of this one; [`Budget::put_back`] returns
    /// its rest.
    pub(crate) fn split_programs(&mut self) -> Self {
        Self {
            program_bytes: std::mem::take(&mut self.program_bytes),
            ..Self::default()
        }
    }

    /// Takes back a part that was split off.
    pub(crate) fn put_back(&mut self, programs: &Self) {
        self.program_bytes = programs.program_bytes;
        self.exhausted |= programs.exhausted;
    }

    /// Returns whether a program was refused: results are then not kept.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// The operations an expression may take; they are all used up by it.
    pub(crate) fn expression(&mut self) -> Option<u32> {
        const EACH: u32 = 500;
        (self.operations >= EACH).then(|| {
            self.operations -= EACH;
            EACH
        })
    }

    /// Returns whether another page may be read, and charges it.
    pub(crate) fn page(&mut self) -> bool {
        self.pages > 0 && {
            self.pages -= 1;
            true
        }
    }
}
