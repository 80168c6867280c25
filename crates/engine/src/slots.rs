//! The recording instances of a data source, as seen by threads.

use ferretto_client::TraceWriter;

use super::instances::{MAX_INSTANCES, UNKNOWN};
use super::primitive::{AtomicU32, AtomicU64, Mutex, Ordering, lock_shown};
use super::writer_source::WriterSource;
use super::{point, runtime};

/// The data that a thread needs to record into an instance. `T` depends on the data source.
#[derive(Clone, Debug)]
pub struct Target<T> {
    /// The source of its writers.
    pub writers: WriterSource,
    /// The settings of the instance.
    pub settings: T,
}

/// A thread's access to an instance.
#[derive(Debug)]
pub struct Opened<T> {
    /// Identifies the instance among those that use a slot one after the other; never 0.
    pub epoch: u64,
    /// The number of times that the instance had been asked to clear its incremental state.
    pub clears: u32,
    /// A sequence of the thread's own.
    pub writer: TraceWriter,
    /// The settings of the instance.
    pub settings: T,
}

/// The part of an instance that threads read without a lock.
#[derive(Debug)]
struct Slot {
    /// The epoch of the instance; 0 if none is recording.
    epoch: AtomicU64,
    clears: AtomicU32,
}

/// The slots for a data source's instances. Only a thread's first event in an instance takes a
/// lock.
///
/// The background thread calls, for each instance in this order, [`prepare`](Self::prepare),
/// [`start`](Self::start), [`stop`](Self::stop) and [`release`](Self::release).
#[derive(Debug)]
pub struct Slots<T: 'static> {
    /// Bit `n` is set while slot `n` is recording.
    active: AtomicU32,
    slots: [Slot; MAX_INSTANCES],
    targets: Targets<T>,
}

impl<T: Clone + Send> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Send> Slots<T> {
    /// Creates free slots.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            active: AtomicU32::new(0),
            slots: [const {
                Slot {
                    epoch: AtomicU64::new(0),
                    clears: AtomicU32::new(0),
                }
            }; MAX_INSTANCES],
            targets: Targets::new(),
        }
    }

    /// Creates free slots.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            active: AtomicU32::new(0),
            slots: std::array::from_fn(|_| Slot {
                epoch: AtomicU64::new(0),
                clears: AtomicU32::new(0),
            }),
            targets: Targets::new(),
        }
    }

    /// Sets the active bits of forked children to [`UNKNOWN`], and those of this process if it is
    /// one that has not checked yet. Call it once, after the data source is registered.
    #[cfg(not(loom))]
    pub fn watch_forks(&'static self) {
        ferretto_shm::fork::store_in_child(&self.active, UNKNOWN);
        if runtime::is_undecided() {
            self.active.store(UNKNOWN, Ordering::Release);
        }
    }

    /// Does nothing, since models do not fork.
    #[cfg(loom)]
    pub fn watch_forks(&'static self) {}

    /// Stops all recording in a forked child, whose trace points still [determine](Self::recording)
    /// the recordings. Called by [`Source::forked`](super::Source::forked).
    pub fn forked(&self) {
        for slot in &self.slots {
            slot.epoch.store(0, Ordering::Relaxed);
        }
        // The old contents are not touched: their locks may be held by threads that do not exist in
        // the child, see `Targets`.
        self.active.store(UNKNOWN, Ordering::Release);
    }

    /// Lets trace points of a forked child rely on the active bits. Called by
    /// [`Source::decided`](super::Source::decided).
    pub fn decided(&self) {
        self.active.fetch_and(!UNKNOWN, Ordering::Release);
    }

    /// Fills a free slot. Threads record only after [`start`](Self::start).
    pub fn prepare(&self, slot: usize, target: Target<T>) {
        *lock_shown(self.targets.at(slot)) = Some(target);
    }

    /// Lets threads record.
    pub fn start(&self, slot: usize) {
        self.slots[slot]
            .epoch
            .store(next_epoch(), Ordering::Release);
        self.active.fetch_or(1 << slot, Ordering::Release);
    }

    /// Stops threads from recording. An event that is being written is completed.
    pub fn stop(&self, slot: usize) {
        self.active.fetch_and(!(1 << slot), Ordering::Release);
        self.slots[slot].epoch.store(0, Ordering::Release);
        point::request_collection();
    }

    /// Frees the slot.
    pub fn release(&self, slot: usize) {
        let target = lock_shown(self.targets.at(slot)).take();
        // Dropped without the lock, since the data source may have a destructor.
        drop(target);
    }

    /// Makes every thread restart its incremental state.
    pub fn clear(&self, slot: usize) {
        self.slots[slot].clears.fetch_add(1, Ordering::Release);
    }

    /// Returns the recording instances as bits, possibly with [`UNKNOWN`].
    #[inline(always)]
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Returns [`active`](Self::active), but determines the bits of a forked child first.
    #[inline]
    pub fn recording(&self) -> u32 {
        match self.active() {
            active if active & UNKNOWN == 0 => active,
            _ => {
                runtime::revive();
                self.active() & !UNKNOWN
            }
        }
    }

    /// Returns the epoch of a slot; 0 if no instance is recording.
    #[inline]
    pub fn epoch(&self, slot: usize) -> u64 {
        self.slots[slot].epoch.load(Ordering::Acquire)
    }

    /// Returns the number of times that the incremental state was cleared.
    #[inline]
    pub fn clears(&self, slot: usize) -> u32 {
        self.slots[slot].clears.load(Ordering::Relaxed)
    }

    /// Opens the instance that is recording in a slot for a thread.
    #[cold]
    pub fn open(&self, slot: usize) -> Option<Opened<T>> {
        let shared = &self.slots[slot];
        let target = lock_shown(self.targets.at(slot));
        // Loaded under the lock, so that both belong to the same instance: `stop` sets it to 0
        // before `release` takes the lock.
        let epoch = shared.epoch.load(Ordering::Acquire);
        let clears = shared.clears.load(Ordering::Acquire);
        let target = target.as_ref().filter(|_| epoch != 0).cloned()?;
        Some(Opened {
            epoch,
            clears,
            writer: target.writers.create_writer(),
            settings: target.settings,
        })
    }

    /// Returns the settings of the instance that is recording in a slot.
    pub fn settings(&self, slot: usize) -> Option<T> {
        self.peek(slot).filter(|_| self.epoch(slot) != 0)
    }

    /// Returns the settings of the instance in a slot, recording or not.
    pub fn peek(&self, slot: usize) -> Option<T> {
        let target = lock_shown(self.targets.at(slot));
        target.as_ref().map(|target| target.settings.clone())
    }
}

#[cfg(not(loom))]
fn next_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Models run again and again, and share no statics between runs.
#[cfg(loom)]
fn next_epoch() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

type TargetSlots<T> = [Mutex<Option<Target<T>>>; MAX_INSTANCES];

/// The targets of all slots. Each process creates its own, so that no lock is ever held by a thread
/// of the parent.
#[cfg(not(loom))]
#[derive(Debug)]
struct Targets<T: 'static>(ferretto_shm::fork::PerProcess<TargetSlots<T>>);

#[cfg(not(loom))]
impl<T: Send> Targets<T> {
    const fn new() -> Self {
        Self(ferretto_shm::fork::PerProcess::new())
    }

    fn at(&self, slot: usize) -> &Mutex<Option<Target<T>>> {
        let targets = self
            .0
            .get_or_init(|| [const { Mutex::new(None) }; MAX_INSTANCES]);
        &targets[slot]
    }
}

#[cfg(loom)]
#[derive(Debug)]
struct Targets<T>(TargetSlots<T>);

#[cfg(loom)]
impl<T> Targets<T> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(None)))
    }

    fn at(&self, slot: usize) -> &Mutex<Option<Target<T>>> {
        &self.0[slot]
    }
}
