//! The budget of a walk.

/// The largest number of bytes of call frame programs to interpret in a walk. Usual functions have
/// a few dozen.
const PROGRAM_BYTES: usize = 1 << 20;
/// The largest number of operations of expressions to evaluate in a walk. Usual expressions have
/// fewer than ten.
const OPERATIONS: u32 = 10_000;
/// The largest number of pages of the target's memory to read in a walk. The stack is usually in
/// the sample.
const PAGES: u32 = 512;

/// The remaining budget of a walk.
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
    /// Charges a program of this many bytes. Returns false if the budget is too small.
    pub(crate) fn program(&mut self, bytes: usize) -> bool {
        let rest = self.program_bytes.checked_sub(bytes);
        self.program_bytes = rest.unwrap_or(self.program_bytes);
        self.exhausted |= rest.is_none();
        rest.is_some()
    }

    /// Splits off the budget for programs; [`Budget::put_back`] returns what is left of it.
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

    /// Returns true if a program was refused. Results are not cached then.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Charges an expression, and returns the number of operations that it may use.
    pub(crate) fn expression(&mut self) -> Option<u32> {
        const EACH: u32 = 500;
        (self.operations >= EACH).then(|| {
            self.operations -= EACH;
            EACH
        })
    }

    /// Charges a page. Returns false if the budget is used up.
    pub(crate) fn page(&mut self) -> bool {
        self.pages > 0 && {
            self.pages -= 1;
            true
        }
    }
}
