//! The set of live sampled allocations.
//!
//! A table under the client's lock, with a lock-free filter in front: a byte for each group of
//! addresses counts its entries in the table. Most frees find 0 there and are done.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::sys;

const FILTER_BYTES: usize = 1 << 20;
const FIRST_SLOTS: usize = 4096;

/// The filter; null before the first session.
static FILTER: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());
/// The filter while `malloc` is recorded, else null.
static WATCHED: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

/// Returns the index of an address in the filter. Nearby addresses have nearby indices, which keeps
/// the working set of a thread in its cache.
#[inline(always)]
fn group(key: u64) -> usize {
    let key = key >> 4;
    (key ^ (key >> 17)) as usize & (FILTER_BYTES - 1)
}

/// Makes frees of `malloc` check the filter.
pub(super) fn watch() {
    WATCHED.store(FILTER.load(Ordering::Relaxed), Ordering::Release);
}

/// Makes frees of `malloc` skip the filter.
pub(super) fn unwatch() {
    WATCHED.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Fills the filter, so that all addresses may be in the set, for a profiler that needs each free.
pub(super) fn fill() {
    let filter = FILTER.load(Ordering::Relaxed);
    if !filter.is_null() {
        for index in 0..FILTER_BYTES {
            // SAFETY: within the filter. A saturated count is not decremented.
            unsafe { &*filter.add(index) }.store(u8::MAX, Ordering::Relaxed);
        }
    }
}

/// Returns false if an address of `malloc` is certainly not in the set.
#[inline(always)]
pub(super) fn may_contain(key: u64) -> bool {
    is_in(WATCHED.load(Ordering::Relaxed), key)
}

/// Returns false if an address of any heap is certainly not in the set.
pub(super) fn may_contain_of_any(key: u64) -> bool {
    is_in(FILTER.load(Ordering::Relaxed), key)
}

#[inline(always)]
fn is_in(filter: *mut AtomicU8, key: u64) -> bool {
    if filter.is_null() {
        return false;
    }
    // SAFETY: the filter is never unmapped, and the index lies within it.
    let count = unsafe { &*filter.add(group(key)) };
    count.load(Ordering::Relaxed) != 0
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    /// The heap; 0 is an empty slot.
    heap: u32,
    padding: u32,
}

/// The table. The holder of the client's lock may use it.
#[derive(Debug)]
pub(super) struct Set {
    slots: *mut Slot,
    /// A power of two, or 0.
    capacity: usize,
    used: usize,
}

/// Maps memory for the client itself. `None` on failure.
pub(super) fn map(bytes: usize) -> Option<*mut c_void> {
    let access = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    // SAFETY: a new mapping does not affect existing memory.
    let base = unsafe { sys::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    (base as isize != -1).then_some(base)
}

impl Set {
    pub(super) const fn new() -> Self {
        Self {
            slots: ptr::null_mut(),
            capacity: 0,
            used: 0,
        }
    }

    /// Empties the set. Returns false if memory runs out.
    pub(super) fn clear(&mut self) -> bool {
        if self.capacity > 0 {
            // SAFETY: mapped by `resize`, and used only under the lock.
            unsafe { sys::munmap(self.slots.cast(), self.capacity * size_of::<Slot>()) };
        }
        *self = Self::new();
        let filter = FILTER.load(Ordering::Relaxed);
        if !filter.is_null() {
            for index in 0..FILTER_BYTES {
                // SAFETY: within the filter. Pages of zeros are not written, so they stay
                // unallocated.
                let count = unsafe { &*filter.add(index) };
                if count.load(Ordering::Relaxed) != 0 {
                    count.store(0, Ordering::Relaxed);
                }
            }
        } else if let Some(filter) = map(FILTER_BYTES) {
            FILTER.store(filter.cast(), Ordering::Release);
        } else {
            return false;
        }
        self.resize(FIRST_SLOTS)
    }

    /// Abandons the memory without reading it, since it may be inconsistent.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    fn resize(&mut self, capacity: usize) -> bool {
        let Some(slots) = map(capacity * size_of::<Slot>()) else {
            return false;
        };
        let old = core::mem::replace(
            self,
            Self {
                slots: slots.cast(),
                capacity,
                used: 0,
            },
        );
        for number in 0..old.capacity {
            // SAFETY: within the old table.
            let slot = unsafe { *old.slots.add(number) };
            if slot.heap != 0 {
                self.put(slot);
            }
        }
        if old.capacity > 0 {
            // SAFETY: mapped by an earlier call, and not used any more.
            unsafe { sys::munmap(old.slots.cast(), old.capacity * size_of::<Slot>()) };
        }
        true
    }

    fn home(&self, key: u64, heap: u32) -> usize {
        let mixed = (key ^ (u64::from(heap) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 20) as usize & (self.capacity - 1)
    }

    fn slot(&mut self, at: usize) -> &mut Slot {
        // SAFETY: the index is masked by the capacity, and the lock is held.
        unsafe { &mut *self.slots.add(at & (self.capacity - 1)) }
    }

    /// Returns the index of an entry, or of the empty slot for it.
    fn find(&mut self, key: u64, heap: u32) -> usize {
        let mut at = self.home(key, heap);
        loop {
            let slot = *self.slot(at);
            if slot.heap == 0 || (slot.key == key && slot.heap == heap) {
                return at & (self.capacity - 1);
            }
            at += 1;
        }
    }

    fn put(&mut self, slot: Slot) {
        let at = self.find(slot.key, slot.heap);
        if self.slot(at).heap == 0 {
            self.used += 1;
        }
        *self.slot(at) = slot;
    }

    /// Adds an allocation. Returns false if memory runs out.
    pub(super) fn insert(&mut self, key: u64, heap: u32) -> bool {
        if self.capacity == 0 || (self.used * 2 >= self.capacity && !self.resize(self.capacity * 2))
        {
            return false;
        }
        let before = self.used;
        self.put(Slot {
            key,
            heap,
            padding: 0,
        });
        if self.used > before {
            self.count(key, |count| count.saturating_add(1));
        }
        true
    }

    /// Removes an allocation. Returns false if it was not in the set.
    pub(super) fn remove(&mut self, key: u64, heap: u32) -> bool {
        if self.capacity == 0 {
            return false;
        }
        let mut hole = self.find(key, heap);
        if self.slot(hole).heap == 0 {
            return false;
        }
        self.slot(hole).heap = 0;
        self.used -= 1;
        // A saturated count stays, since the real one is unknown.
        self.count(key, |count| match count {
            u8::MAX => u8::MAX,
            count => count.saturating_sub(1),
        });
        // Moves back the following entries whose probe sequence passes the hole.
        let mask = self.capacity - 1;
        let mut at = (hole + 1) & mask;
        while self.slot(at).heap != 0 {
            let slot = *self.slot(at);
            let home = self.home(slot.key, slot.heap);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                *self.slot(hole) = slot;
                self.slot(at).heap = 0;
                hole = at;
            }
            at = (at + 1) & mask;
        }
        true
    }

    fn count(&self, key: u64, change: impl FnOnce(u8) -> u8) {
        let filter = FILTER.load(Ordering::Relaxed);
        if !filter.is_null() {
            // SAFETY: within the filter. Counts are changed only under the lock.
            let count = unsafe { &*filter.add(group(key)) };
            count.store(change(count.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn insertions_and_removals_match_a_model_set() {
        let mut set = Set::new();
        assert!(
            !set.remove(1, 1) && !set.insert(1, 1),
            "before `clear` has mapped memory"
        );
        assert!(set.clear());
        let mut model = HashSet::new();
        let mut state = 99;
        for _ in 0..200_000 {
            let random = super::super::sampler::random(&mut state);
            let (key, heap) = ((random >> 8) % 5000 * 16, (random & 1) as u32 + 1);
            match random >> 62 {
                0 | 1 => {
                    assert!(set.insert(key, heap));
                    model.insert((key, heap));
                }
                _ => assert_eq!(set.remove(key, heap), model.remove(&(key, heap))),
            }
        }
        assert_eq!(set.used, model.len());
        assert!(model.iter().all(|(key, _)| may_contain_of_any(*key)));
        assert!(!may_contain_of_any(0x7fff_1234_0000));
        assert!(
            model.iter().all(|(key, _)| !may_contain(*key)),
            "the filter is not watched"
        );
        for (key, heap) in model {
            assert!(set.remove(key, heap));
        }
        assert_eq!(set.used, 0);
    }
}
