//! The state of a thread for track events.

use std::mem;
use std::ptr;

use ferretto_engine::EventBuffer;
use ferretto_engine::MAX_INSTANCES;

use super::sequence::Sequence;
use super::source::SLOTS;
use crate::thread::{self, Tracer};

/// A thread's access to a recording.
#[repr(C)]
pub(super) struct Entry {
    pub(super) tracer: Tracer,
    pub(super) sequence: Sequence,
}

/// The entries of a thread.
pub(crate) struct TeThread {
    /// Pointers from boxes; null for recordings to which the thread has not written.
    entries: [*mut Entry; MAX_INSTANCES],
    pub(super) buffer: EventBuffer,
}

impl Default for TeThread {
    fn default() -> Self {
        Self {
            entries: [ptr::null_mut(); MAX_INSTANCES],
            buffer: EventBuffer::new(),
        }
    }
}

impl Drop for TeThread {
    fn drop(&mut self) {
        (0..MAX_INSTANCES).for_each(|slot| self.close(slot));
    }
}

impl TeThread {
    /// Returns this thread's access to the recording in a slot; `None` if there is none.
    #[inline]
    pub(super) fn entry(&mut self, slot: usize) -> Option<(&mut Entry, &mut EventBuffer)> {
        let known = self.entries[slot];
        // SAFETY: entries are null or valid, and belong to this thread.
        let is_current = !known.is_null() && unsafe { (*known).tracer.epoch } == SLOTS.epoch(slot);
        let entry = if is_current { known } else { self.open(slot)? };
        // SAFETY: as above; the reference does not outlive `self`.
        let entry = unsafe { &mut *entry };
        let clears = SLOTS.clears(slot);
        if entry.tracer.clears != clears {
            entry.tracer.clears = clears;
            entry.sequence.clear();
        }
        Some((entry, &mut self.buffer))
    }

    #[cold]
    fn open(&mut self, slot: usize) -> Option<*mut Entry> {
        self.close(slot);
        let opened = SLOTS.open(slot)?;
        let entry = Box::into_raw(Box::new(Entry {
            sequence: Sequence::new(opened.settings, opened.writer.drop_count()),
            tracer: Tracer::new(opened.epoch, opened.clears, opened.writer),
        }));
        // SAFETY: the entry was just created.
        unsafe { Tracer::register(entry.cast()) };
        self.entries[slot] = entry;
        Some(entry)
    }

    fn close(&mut self, slot: usize) {
        let entry = mem::replace(&mut self.entries[slot], ptr::null_mut());
        if !entry.is_null() {
            // SAFETY: from a box in `open`; programs only use it inside of trace points.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}

/// Drops this thread's sequences of recordings that have stopped.
pub(crate) fn collect() {
    let thread = thread::existing();
    if thread.is_null() {
        return;
    }
    // SAFETY: the state belongs to this thread; no callbacks of the program are called here.
    let events = unsafe { &mut (*thread).events };
    for slot in 0..MAX_INSTANCES {
        let entry = events.entries[slot];
        // SAFETY: entries are null or valid.
        if !entry.is_null() && unsafe { (*entry).tracer.epoch } != SLOTS.epoch(slot) {
            events.close(slot);
        }
    }
}
