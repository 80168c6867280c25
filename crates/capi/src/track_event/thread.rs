//! The state that a thread keeps for track events.

use std::mem;
use std::ptr;

use ferretto_engine::EventBuffer;
use ferretto_engine::MAX_INSTANCES;

use super::sequence::Sequence;
use super::source::SLOTS;
use crate::thread::{self, Tracer};

/// A thread's way into a recording.
#[repr(C)]
pub(super) struct Entry {
    pub(super) tracer: Tracer,
    pub(super) sequence: Sequence,
}

/// All of a thread's.
pub(crate) struct TeThread {
    /// From boxes; null where the thread has not written.
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
        (0..MAX_INSTANCES).for_each(|place| self.close(place));
    }
}

impl TeThread {
    /// This thread's way into the recording in a place; `None` if there is none.
    #[inline]
    pub(super) fn entry(&mut self, place: usize) -> Option<(&mut Entry, &mut EventBuffer)> {
        let known = self.entries[place];
        // SAFETY: entries are null or valid, and only this thread's.
        let is_current = !known.is_null() && unsafe { (*known).tracer.epoch } == SLOTS.epoch(place);
        let entry = if is_current { known } else { self.open(place)? };
        // SAFETY: as above; the reference lives no longer than that to `self`.
        let entry = unsafe { &mut *entry };
        let clears = SLOTS.clears(place);
        if entry.tracer.clears != clears {
            entry.tracer.clears = clears;
            entry.sequence.clear();
        }
        Some((entry, &mut self.buffer))
    }

    #[cold]
    fn open(&mut self, place: usize) -> Option<*mut Entry> {
        self.close(place);
        let opened = SLOTS.open(place)?;
        let entry = Box::into_raw(Box::new(Entry {
            sequence: Sequence::new(opened.settings, opened.writer.drop_count()),
            tracer: Tracer::new(opened.epoch, opened.clears, opened.writer),
        }));
        // SAFETY: just made.
        unsafe { Tracer::settle(entry.cast()) };
        self.entries[place] = entry;
        Some(entry)
    }

    fn close(&mut self, place: usize) {
        let entry = mem::replace(&mut self.entries[place], ptr::null_mut());
        if !entry.is_null() {
            // SAFETY: from a box in `open`; programs do not use it outside of their trace points.
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
    // SAFETY: this thread's; nothing here calls the program.
    let events = unsafe { &mut (*thread).events };
    for place in 0..MAX_INSTANCES {
        let entry = events.entries[place];
        // SAFETY: entries are null or valid.
        if !entry.is_null() && unsafe { (*entry).tracer.epoch } != SLOTS.epoch(place) {
            events.close(place);
        }
    }
}
