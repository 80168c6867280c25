//! Rows of an unwind table in a compact form.

/// The largest number of registers in a rule ([`crate::Machine::saved`]).
pub(crate) const SLOTS: usize = 12;

/// The kind of frame at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The tables do not cover the address.
    Missing,
    /// The function is the outermost.
    End,
    /// The canonical frame address is a register plus an offset.
    Register,
    /// The canonical frame address is the value in memory at a register plus an offset, as in a
    /// function that aligns its stack.
    Indirect,
    /// A rule cannot represent the row, which has to be interpreted.
    Program,
}

/// The rule that restores the registers of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    /// The DWARF number of the base register of the canonical frame address.
    pub(crate) base: u8,
    /// Set for the code that a signal handler returns to: the restored address is the interrupted
    /// instruction, not a return address.
    pub(crate) signal: bool,
    /// The bit set of saved registers, by index in [`crate::Machine::saved`].
    pub(crate) mask: u16,
    /// The offset of the canonical frame address.
    pub(crate) offset: i32,
    /// The distances of the saved registers from the canonical frame address, in words.
    pub(crate) saved: [i8; SLOTS],
}

impl Rule {
    /// Creates a rule without registers.
    pub(crate) const fn bare(kind: Kind) -> Self {
        Self {
            kind,
            base: 0,
            signal: false,
            mask: 0,
            offset: 0,
            saved: [0; SLOTS],
        }
    }
}
