//! Buffers without an id: tracing starts before the service has assigned one.

use std::collections::{BTreeMap, BTreeSet};

/// The buffer of a writer's chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A central buffer. 0 is none: the service frees the chunks without storing them.
    Buffer(u16),
    /// The buffer to which this reservation will be resolved. Never sent.
    Reserved(u16),
}

impl Target {
    /// Returns the id of the buffer; 0 if it is not known.
    pub(crate) fn buffer(self) -> u16 {
        match self {
            Self::Buffer(buffer) => buffer,
            Self::Reserved(_) => 0,
        }
    }
}

/// The reservations, with the buffers of resolved ones.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    open: BTreeSet<u16>,
    /// The resolved reservations: four bytes each, and at most 65536 of them.
    resolved: BTreeMap<u16, u16>,
}

impl Reservations {
    /// Returns true if all reservations made so far are resolved.
    pub(crate) fn are_resolved(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the buffer of a resolved reservation.
    pub(crate) fn buffer(&self, reservation: u16) -> Option<u16> {
        self.resolved.get(&reservation).copied()
    }

    /// Returns the target of a new writer for a reservation.
    pub(crate) fn target(&mut self, reservation: u16) -> Target {
        if let Some(&buffer) = self.resolved.get(&reservation) {
            return Target::Buffer(buffer);
        }
        self.open.insert(reservation);
        Target::Reserved(reservation)
    }

    /// Resolves a reservation. Returns false if it was resolved before.
    pub(crate) fn resolve(&mut self, reservation: u16, buffer: u16) -> bool {
        if self.resolved.contains_key(&reservation) {
            return false;
        }
        self.open.remove(&reservation);
        self.resolved.insert(reservation, buffer);
        true
    }
}
