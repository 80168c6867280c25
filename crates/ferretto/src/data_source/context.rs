//! The state of a thread for data sources, and the context that trace points receive.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use ferretto_client::{FlushCallback, Packet, TraceWriter};
use ferretto_engine::{self as engine, MAX_INSTANCES, MAX_SOURCES, bits, point};

use super::registered::Registered;
use super::{DataSource, Instance};

/// A thread's sequence in one recording, for the duration of a trace point.
pub struct TraceContext<'a, D: DataSource> {
    registered: &'static Registered<D>,
    slot: usize,
    entry: &'a mut Entry<D>,
}

impl<D: DataSource> TraceContext<'_, D> {
    /// Starts a packet. It ends when the returned value is dropped.
    #[inline]
    pub fn new_packet(&mut self) -> Packet<'_> {
        self.entry.writer.new_packet()
    }

    /// Returns this thread's state for this recording. It has been cleared if the recording
    /// requested that since the last trace point.
    #[inline]
    pub fn state(&mut self) -> &mut D::Thread {
        &mut self.entry.thread
    }

    /// Returns a new packet, and this thread's state for this recording.
    #[inline]
    pub fn packet_and_state(&mut self) -> (Packet<'_>, &mut D::Thread) {
        (self.entry.writer.new_packet(), &mut self.entry.thread)
    }

    /// Returns the index of the instance, 0 to 7, among those of the data source that exist at the
    /// same time.
    #[inline]
    pub fn instance_index(&self) -> usize {
        self.slot
    }

    /// Returns the instance; `None` if the recording has just stopped. Takes a lock, so trace
    /// points that need data of the instance often should copy it in [`DataSource::thread`].
    pub fn instance(&self) -> Option<Instance<D>> {
        self.registered.slots.settings(self.slot)
    }

    /// Commits the packets that this thread has written to this recording. `callback` is called
    /// when the service has received them, at once if there is no connection, and never if the
    /// connection is lost before.
    pub fn flush(&mut self, callback: Option<FlushCallback>) {
        engine::wait_for_continued();
        self.entry.writer.flush(callback);
    }

    /// Returns how often this thread has run out of memory in this recording. Each time, packets
    /// were dropped.
    pub fn drop_count(&self) -> u64 {
        self.entry.writer.drop_count()
    }

    /// Returns the writer.
    pub fn writer(&mut self) -> &mut TraceWriter {
        &mut self.entry.writer
    }
}

impl<D: DataSource> fmt::Debug for TraceContext<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("instance_index", &self.slot)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// This thread's state, by the index of the data source.
    static THREAD: RefCell<[Option<Box<dyn Kept>>; MAX_SOURCES]> =
        const { RefCell::new([const { None }; MAX_SOURCES]) };
}

/// A thread's state for a data source of any type.
trait Kept: Any {
    /// Drops the state of stopped instances.
    fn collect(&mut self);
    fn flush(&mut self);
}

/// A thread's state for a data source.
struct Entries<D: DataSource> {
    registered: &'static Registered<D>,
    slots: [Option<Entry<D>>; MAX_INSTANCES],
}

/// A thread's state for an instance.
struct Entry<D: DataSource> {
    epoch: u64,
    clears: u32,
    writer: TraceWriter,
    thread: D::Thread,
}

impl<D: DataSource> Entries<D> {
    fn new(registered: &'static Registered<D>) -> Self {
        Self {
            registered,
            slots: [const { None }; MAX_INSTANCES],
        }
    }

    #[inline]
    fn entry(&mut self, slot: usize) -> Option<&mut Entry<D>> {
        let clears = self.registered.slots.clears(slot);
        match &self.slots[slot] {
            None => self.open(slot)?,
            Some(entry) if entry.clears != clears => self.clear(slot, clears)?,
            Some(_) => {}
        }
        self.slots[slot].as_mut()
    }

    #[cold]
    fn open(&mut self, slot: usize) -> Option<()> {
        let opened = self.registered.slots.open(slot)?;
        self.slots[slot] = Some(Entry {
            epoch: opened.epoch,
            clears: opened.clears,
            writer: opened.writer,
            thread: self.registered.source.thread(&opened.settings),
        });
        Some(())
    }

    #[cold]
    fn clear(&mut self, slot: usize, clears: u32) -> Option<()> {
        let source = &self.registered.source;
        let entry = self.slots[slot].as_mut()?;
        if !source.clear_thread(&mut entry.thread) {
            // If the recording has stopped in the meantime, there is nothing to write.
            let instance = self.registered.slots.settings(slot)?;
            entry.thread = source.thread(&instance);
        }
        entry.clears = clears;
        Some(())
    }
}

impl<D: DataSource> Kept for Entries<D> {
    fn collect(&mut self) {
        for (slot, entry) in self.slots.iter_mut().enumerate() {
            let epoch = self.registered.slots.epoch(slot);
            if entry.as_ref().is_some_and(|entry| entry.epoch != epoch) {
                *entry = None;
            }
        }
    }

    fn flush(&mut self) {
        let entries = self.slots.iter_mut().flatten();
        entries.for_each(|entry| entry.writer.flush(None));
    }
}

/// Calls `write` for every recording of a data source.
pub(super) fn trace<D: DataSource>(
    registered: &'static Registered<D>,
    number: usize,
    mut write: impl FnMut(&mut TraceContext<'_, D>),
) {
    let recording = registered.slots.recording();
    if recording == 0 {
        return;
    }
    let Some(_point) = point::enter() else {
        return;
    };
    // Fails while the thread ends; packets traced then are lost.
    let _ = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else {
            return;
        };
        let kept = thread[number].get_or_insert_with(|| Box::new(Entries::new(registered)));
        let kept: &mut dyn Any = &mut **kept;
        let Some(entries) = kept.downcast_mut::<Entries<D>>() else {
            return;
        };
        for slot in bits(recording) {
            if let Some(entry) = entries.entry(slot) {
                write(&mut TraceContext {
                    registered,
                    slot,
                    entry,
                });
            }
        }
    });
}

/// Drops this thread's state of stopped recordings.
pub(super) fn collect_thread() {
    for_all(|kept| kept.collect());
}

/// Calls `act` with all of this thread's state.
fn for_all(act: impl Fn(&mut dyn Kept)) {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread
                .iter_mut()
                .flatten()
                .for_each(|kept| act(&mut **kept));
        }
    });
}

/// Flushes this thread's writers.
pub(crate) fn flush_thread() {
    if let Some(_point) = point::enter() {
        for_all(|kept| kept.flush());
    }
}
