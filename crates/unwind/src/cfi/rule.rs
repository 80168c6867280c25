//! A row of an unwind table in a form that is quick to follow.

/// Most registers a rule speaks of ([`crate::Machine::saved`]).
pub(crate) const SLOTS: usize = 12;

/// The kind of frame at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The tables say nothing about the address.
    Missing,
    /// It is the outermost function.
    End,
    /// The canonical frame address is a register and an offset.
    Register,
    /// The canonical frame address is at what a register and an offset point to, as where a
    /// function has aligned its stack.
    Indirect,
    /// More than a rule can say: the table's row has to be interpreted.
    Program,
}

/// The rule by which the caller of an address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    /// DWARF's number of the register that the canonical frame address is based on.
    pub(crate) base: u8,
    /// A signal handler returns here: the address found is the interrupted instruction, not a
    /// return address.
    pub(crate) signal: bool,
    /// The registers that the frame has saved, by their place in [`crate::Machine::saved`].
    pub(crate) mask: u16,
    /// Offset of the canonical frame address.
    pub(crate) offset: i32,
    /// The places where they are saved: distance from the canonical frame address, in words.
    pub(crate) saved: [i8; SLOTS],
}

impl Rule {
    /// A rule that needs no registers.
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
