//! The instances of a data source that are recording, as threads see them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_client::{ExhaustedPolicy, ProducerHandle, TraceWriter};
use ferretto_proto::DataSourceConfig;
use ferretto_proto::data_source_config::BufferExhaustedPolicy;

use super::point;

/// Most instances of one data source at a time.
pub const MAX_INSTANCES: usize = 8;

/// What a thread needs to record into an instance. `T` is particular to the data source.
#[derive(Clone, Debug)]
pub struct Target<T> {
    /// The connection.
    pub handle: ProducerHandle,
    /// The buffer's number there.
    pub buffer: u32,
    /// What to do when memory is full.
    pub policy: ExhaustedPolicy,
    /// What the data source wants to know.
    pub settings: T,
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
pub struct Slots<T> {
    slots: [Slot<T>; MAX_INSTANCES],
    /// Bit `n` is set while slot `n` is recording.
    active: AtomicU32,
}

impl<T: Clone> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Slots<T> {
    /// Places that are all free.
    pub const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    epoch: AtomicU64::new(0),
                    clears: AtomicU32::new(0),
                    target: Mutex::new(None),
                }
            }; MAX_INSTANCES],
            active: AtomicU32::new(0),
        }
    }

    /// Takes a free place; `None` if all are taken. Nothing is recorded there before [`Slots::start`].
    pub fn claim(&self, target: Target<T>) -> Option<usize> {
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
    pub fn start(&self, index: usize) {
        static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1);
        let epoch = NEXT_EPOCH.fetch_add(1, Ordering::Relaxed);
        self.slots[index].epoch.store(epoch, Ordering::Release);
        self.active.fetch_or(1 << index, Ordering::Release);
    }

    /// Stops threads from recording. An event that is being written is finished.
    pub fn stop(&self, index: usize) {
        self.active.fetch_and(!(1 << index), Ordering::Release);
        self.slots[index].epoch.store(0, Ordering::Release);
        point::request_collection();
    }

    /// Gives the place up.
    pub fn release(&self, index: usize) {
        *lock(&self.slots[index].target) = None;
    }

    /// Has every thread start its incremental state anew.
    pub fn clear(&self, index: usize) {
        self.slots[index].clears.fetch_add(1, Ordering::Release);
    }

    /// The instances that are recording, as bits.
    #[inline]
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// The epoch of a place, 0 while nothing is recorded there.
    #[inline]
    pub fn epoch(&self, index: usize) -> u64 {
        self.slots[index].epoch.load(Ordering::Acquire)
    }

    /// How often the incremental state was cleared.
    #[inline]
    pub fn clears(&self, index: usize) -> u32 {
        self.slots[index].clears.load(Ordering::Relaxed)
    }

    /// The settings of an instance, and a writer into its buffer.
    pub fn writer(&self, index: usize) -> Option<(TraceWriter, T)> {
        let target = lock(&self.slots[index].target).clone()?;
        let writer = target.handle.create_writer(target.buffer, target.policy);
        Some((writer, target.settings))
    }

    /// Looks at the settings of every place that is taken.
    pub fn for_each(&self, mut look: impl FnMut(usize, &T)) {
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(target) = &*lock(&slot.target) {
                look(index, &target.settings);
            }
        }
    }
}

/// What the config says about full memory; by default events are dropped.
pub fn exhausted_policy(config: &DataSourceConfig) -> ExhaustedPolicy {
    match config.buffer_exhausted_policy {
        Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_ABORT) => {
            ExhaustedPolicy::StallThenAbort
        }
        Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP) => {
            ExhaustedPolicy::StallThenDrop
        }
        _ => ExhaustedPolicy::Drop,
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The indices of the bits set.
pub fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        set = set & set.wrapping_sub(1);
        (index < 32).then_some(index as usize)
    })
}
