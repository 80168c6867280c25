//! Replaces machines in a service built without them: there are none.

use super::{VmAbort, VmError, VmSetup, VmState};
use crate::buffer::ProducerId;

#[derive(Debug, Default)]
pub(in crate::buffer) struct Machines;

impl Machines {
    pub(super) fn set_up(&mut self, _setup: &VmSetup<'_>) -> Result<(), VmError> {
        Err(VmError::NotBuilt)
    }

    pub(super) fn want(&self, _producer: ProducerId) -> bool {
        false
    }

    pub(super) fn apply(&mut self, _producer: ProducerId, _packet: &[u8]) {}

    pub(super) fn take_aborts(&mut self) -> Vec<VmAbort> {
        Vec::new()
    }

    pub(super) fn states(&self) -> impl Iterator<Item = VmState<'_>> {
        std::iter::empty()
    }

    pub(in crate::buffer) fn copied(&self) -> Self {
        Self
    }

    pub(super) fn are_live(&self) -> bool {
        false
    }

    pub(super) fn forked(&self) -> Self {
        Self
    }

    pub(super) fn drop_exhausted(&mut self) {}

    pub(in crate::buffer) fn memory(&self) -> u64 {
        0
    }
}
