//! Buffers that have no number yet: tracing that begins before the service has said where to.

use std::collections::{BTreeMap, BTreeSet};

/// The buffer that a writer's chunks are meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A central buffer; 0 is none, the service frees the chunks and stores nothing.
    Buffer(u16),
    /// The buffer this reservation will turn out to be. Never sent.
    Reserved(u16),
}

impl Target {
    /// The buffer's number, 0 if that is not known.
    pub(crate) fn buffer(self) -> u16 {
        match self {
            Self::Buffer(buffer) => buffer,
            Self::Reserved(_) => 0,
        }
    }
}

/// The reservations, and the buffers they were resolved to.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    open: BTreeSet<u16>,
    /// Four bytes each, and no more than there are numbers.
    resolved: BTreeMap<u16, u16>,
}

impl Reservations {
    /// Returns whether every reservation made so far is resolved.
    pub(crate) fn are_resolved(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the target of a reservation.
    pub(crate) fn buffer(&self, reservation: u16) -> Option<u16> {
        self.resolved.get(&reservation).copied()
    }

    /// The target of a new writer for a reservation.
    pub(crate) fn target(&mut self, reservation: u16) -> Target {
        if let Some(&buffer) = self.resolved.get(&reservation) {
            return Target::Buffer(buffer);
        }
        self.open.insert(reservation);
        Target::Reserved(reservation)
    }

    /// Returns whether that is news: a reservation is resolved once.
    pub(crate) fn resolve(&mut self, reservation: u16, buffer: u16) -> bool {
        if self.resolved.contains_key(&reservation) {
            return false;
        }
        self.open.remove(&reservation);
        self.resolved.insert(reservation, buffer);
        true
    }
}
