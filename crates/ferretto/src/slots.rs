//! The instances of a data source that are recording, as threads see them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_client::{ExhaustedPolicy, ProducerHandle, TraceWriter};

/// Most instances of one data source at a time.
pub(crate) const MAX_INSTANCES: usize = 8;

/// What a thread needs to record into an instance. `T` is particular to the data source.
#[derive(Clone, Debug)]
pub(crate) struct Target<T> {
    pub(crate) handle: ProducerHandle,
    pub(crate) buffer: u32,
    pub(crate) policy: ExhaustedPolicy,
    pub(crate) settings: T,
}

/// A place for one instance.
#[derive(Debug)]
struct Slot<T> {
    /// Tells the instances that use the place one after the other apart; 0 while there is none.
    epoch: AtomicU64,
    /// How often the instance was told to start its incremental state anew.
    clears: AtomicU32,
    target: Mutex<Option<Target<T>>>,
}

/// The places for a data source's instances. Threads look at them without locking; only a thread's first event in an
/// instance takes a lock.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: [Slot<T>; MAX_INSTANCES],
    /// Bit `n` is set while slot `n` is recording.
    active: AtomicU32,
    /// Counts the changes of `active`.
    generation: AtomicU32,
}

impl<T: Clone> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    epoch: AtomicU64::new(0),
                    clears: AtomicU32::new(0),
                    target: Mutex::new(None),
                }
            }; MAX_INSTANCES],
            active: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        }
    }

    /// Takes a free place; `None` if all are taken. Nothing is recorded there before [`Slots::start`].
    pub(crate) fn claim(&self, target: Target<T>) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let mut place = lock(&slot.target);
            let is_free = place.is_none();
            if is_free {
                *place = Some(target.clone());
            }
            is_free
        })
    }

    /// Lets threads record.
    pub(crate) fn start(&self, index: usize) {
        static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        self.slots[index].epoch.store(epoch, Ordering::Release);
        self.active.fetch_or(1 << index, Ordering::Release);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Stops threads from recording. An event that is being written is finished.
    pub(crate) fn stop(&self, index: usize) {
        self.active.fetch_and(!(1 << index), Ordering::Release);
        self.slots[index].epoch.store(0, Ordering::Release);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Gives the place up.
    pub(crate) fn release(&self, index: usize) {
        *lock(&self.slots[index].target) = None;
    }

    /// Has every thread start its incremental state anew.
    pub(crate) fn clear(&self, index: usize) {
        self.slots[index].clears.fetch_add(1, Ordering::Release);
    }

    /// The instances that are recording, as bits.
    #[inline]
    pub(crate) fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Changes whenever an instance starts or stops.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The epoch of a place, 0 while nothing is recorded there.
    #[inline]
    pub(crate) fn epoch(&self, index: usize) -> u64 {
        self.slots[index].epoch.load(Ordering::Acquire)
    }

    /// How often the incremental state was cleared.
    #[inline]
    pub(crate) fn clears(&self, index: usize) -> u32 {
        self.slots[index].clears.load(Ordering::Relaxed)
    }

    /// The settings of an instance, and a writer into its buffer.
    pub(crate) fn writer(&self, index: usize) -> Option<(TraceWriter, T)> {
        let target = lock(&self.slots[index].target).clone()?;
        let writer = target.handle.create_writer(target.buffer, target.policy);
        Some((writer, target.settings))
    }

    /// Looks at the settings of every place that is taken.
    pub(crate) fn for_each(&self, mut look: impl FnMut(usize, &T)) {
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(target) = &*lock(&slot.target) {
                look(index, &target.settings);
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The indices of the bits set.
pub(crate) fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        set = set & set.wrapping_sub(1);
        (index < 32).then_some(index as usize)
    })
}
