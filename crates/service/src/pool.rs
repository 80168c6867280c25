//! The buffers of all sessions, by the ids of the protocol.

use std::collections::BTreeMap;

use crate::buffer::{TraceBuffer, VmAbort, VmError, VmSetup};
use crate::ids::BufferId;

/// All trace buffers.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    buffers: BTreeMap<BufferId, TraceBuffer>,
    last: BufferId,
    /// Set once a buffer has had machines.
    with_vms: bool,
}

impl BufferPool {
    /// Adds a buffer; `None` if all 65535 ids are in use.
    fn add(&mut self, buffer: TraceBuffer) -> Option<BufferId> {
        if self.buffers.len() >= usize::from(BufferId::MAX) {
            return None;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.buffers.contains_key(&self.last) {
                self.buffers.insert(self.last, buffer);
                return Some(self.last);
            }
        }
    }

    /// Adds buffers. Adds none if there are too few ids.
    pub(crate) fn add_all(
        &mut self,
        buffers: impl Iterator<Item = TraceBuffer>,
    ) -> Option<Vec<BufferId>> {
        let mut ids = Vec::new();
        for buffer in buffers {
            match self.add(buffer) {
                Some(id) => ids.push(id),
                None => {
                    ids.into_iter().for_each(|id| self.remove(id));
                    return None;
                }
            }
        }
        Some(ids)
    }

    pub(crate) fn get(&self, id: BufferId) -> Option<&TraceBuffer> {
        self.buffers.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: BufferId) -> Option<&mut TraceBuffer> {
        self.buffers.get_mut(&id)
    }

    /// Sets up a machine; see [`TraceBuffer::set_up_vm`].
    pub(crate) fn set_up_vm(&mut self, id: BufferId, setup: &VmSetup<'_>) -> Result<(), VmError> {
        let Some(buffer) = self.buffers.get_mut(&id) else {
            return Ok(());
        };
        self.with_vms = true;
        buffer.set_up_vm(setup)
    }

    /// Takes the errors of machines since the last call.
    pub(crate) fn take_vm_aborts(&mut self) -> Vec<VmAbort> {
        if !self.with_vms {
            return Vec::new();
        }
        let buffers = self.buffers.values_mut();
        buffers.flat_map(TraceBuffer::take_vm_aborts).collect()
    }

    /// Replaces a buffer, and returns the old one.
    pub(crate) fn replace(&mut self, id: BufferId, buffer: TraceBuffer) -> Option<TraceBuffer> {
        let old = self.buffers.get_mut(&id)?;
        Some(std::mem::replace(old, buffer))
    }

    pub(crate) fn remove(&mut self, id: BufferId) {
        self.buffers.remove(&id);
    }

    /// Returns the capacity of all buffers in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        let buffers = self.buffers.values();
        buffers.map(|buffer| buffer.stats().buffer_size).sum()
    }

    /// Returns the memory that all buffers need when full, in bytes.
    pub(crate) fn memory_needed(&self) -> u64 {
        self.buffers.values().map(memory_needed).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }
}

/// Returns the memory that a buffer needs when full, in bytes.
pub(crate) fn memory_needed(buffer: &TraceBuffer) -> u64 {
    let index = buffer.memory_usage().saturating_sub(buffer.used_size());
    buffer.size().max(buffer.used_size()) + index
}
