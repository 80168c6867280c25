//! A table with the values of most spans, for access without the registry, which takes two locks
//! and a hash table lookup for each access, and memory for each span.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::numbers::{Numbers, Shared};
use super::stored::Stored;

/// The number of slots, each for the values of one span.
const SLOTS: usize = 256;

/// The span id of a slot that is being filled.
const FILLING: u64 = u64::MAX;

/// The slots for values by span id. If its slot is taken, a span has its values in its
/// extensions.
#[derive(Default)]
pub(crate) struct Near(OnceLock<Box<[Slot; SLOTS]>>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// The span whose values are stored here, or 0. A thread with access to a span synchronized
    /// with the thread that created it, so it sees its id and its values here.
    span: AtomicU64,
    /// The values, if they are a few numbers and none were added. They do not change until the span
    /// ends or they move to `stored`.
    numbers: Shared,
    /// No user code runs while the lock is held.
    stored: Mutex<Stored>,
}

impl Slot {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_of(&self, span: u64) -> bool {
        self.span.load(Ordering::Acquire) == span
    }

    /// Frees the slot with its values in `stored`.
    #[inline(never)]
    fn release(&self) {
        self.lock().release();
        self.span.store(0, Ordering::Release);
    }

    /// Takes the slot, if it is free, for a span whose values `fill` stores.
    #[inline]
    fn fill(&self, span: u64, fill: impl FnOnce(&Self)) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self.span.compare_exchange(0, FILLING, success, failure);
        if taken.is_ok() {
            fill(self);
            self.span.store(span, Ordering::Release);
        }
        taken.is_ok()
    }
}

/// Returns the slot for the values of a span. Simultaneous spans of one thread, and spans of
/// different threads, mostly have different slots. Consecutive spans have the same slot, which is
/// in the cache: registries reuse indices in the low bits, and the middle bits contain the thread.
#[inline]
fn at(slots: &[Slot; SLOTS], span: u64) -> &Slot {
    let thread = span >> 38;
    let slot = span.wrapping_add(thread.wrapping_mul(29));
    &slots[slot as usize % SLOTS]
}

/// Creates free slots, not on the stack, which may be small.
#[cold]
fn slots() -> Box<[Slot; SLOTS]> {
    let slots: Box<[_]> = (0..SLOTS).map(|_| Slot::default()).collect();
    slots.try_into().expect("there are as many")
}

impl Near {
    #[inline]
    fn slot(&self, span: u64) -> Option<&Slot> {
        self.0.get().map(|slots| at(slots, span))
    }

    #[inline]
    fn slot_for(&self, span: u64) -> &Slot {
        at(self.0.get_or_init(slots), span)
    }

    #[inline]
    fn slot_of(&self, span: u64) -> Option<&Slot> {
        self.slot(span).filter(|slot| slot.is_of(span))
    }

    /// Stores the values of a new span, if its slot is free.
    #[inline]
    pub(crate) fn put(&self, span: u64, stored: &mut Stored) -> bool {
        let fill = |slot: &Slot| *slot.lock() = std::mem::take(stored);
        self.slot_for(span).fill(span, fill)
    }

    /// Stores the values of a new span that only has numbers, if its slot is free.
    #[inline]
    pub(crate) fn put_numbers(&self, span: u64, numbers: &Numbers) -> bool {
        let fill = |slot: &Slot| slot.numbers.set(numbers);
        self.slot_for(span).fill(span, fill)
    }

    /// Returns the values of a span, if they are here and only numbers.
    #[inline]
    pub(crate) fn numbers(&self, span: u64) -> Option<&Shared> {
        let numbers = &self.slot_of(span)?.numbers;
        (!numbers.is_empty()).then_some(numbers)
    }

    /// Calls `act` with the values of a span, if they are here.
    #[inline]
    pub(crate) fn with<R>(&self, span: u64, act: impl FnOnce(&mut Stored) -> R) -> Option<R> {
        let slot = self.slot_of(span)?;
        let mut values = slot.lock();
        for (index, tag, bits) in slot.numbers.iter() {
            values.push_number(index, tag, bits);
        }
        slot.numbers.clear();
        // The span cannot end meanwhile, because the caller holds it.
        Some(act(&mut values))
    }

    /// Removes a closed span, whose id may be reused.
    #[inline]
    pub(crate) fn remove(&self, span: u64) {
        if let Some(slot) = self.slot_of(span) {
            if slot.numbers.is_empty() {
                return slot.release();
            }
            slot.numbers.clear();
            slot.span.store(0, Ordering::Release);
        }
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Near").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto::Flow;

    /// Returns a value that identifies the span.
    fn flow(span: u64) -> (Flow, bool) {
        (Flow::process(span), false)
    }

    #[test]
    fn spans_have_their_own_values_until_they_end() {
        let near = Near::default();
        assert!(near.with(1, |_| ()).is_none());
        let mut kept = Vec::new();
        for span in 1..=4 * SLOTS as u64 {
            let mut stored = Stored::default();
            stored.flows.push(flow(span));
            if near.put(span, &mut stored) {
                kept.push(span);
            } else {
                assert_eq!(stored.flows, [flow(span)], "the caller keeps the values");
            }
        }
        assert!(kept.len() > SLOTS / 2 && kept.len() <= SLOTS);
        for span in 1..=4 * SLOTS as u64 {
            let flows = near.with(span, |stored| stored.flows.clone());
            let expected = kept.contains(&span).then(|| vec![flow(span)]);
            assert_eq!(flows, expected);
        }
        for &span in &kept {
            near.remove(span);
            assert!(near.with(span, |_| ()).is_none());
            let mut stored = Stored::default();
            assert!(near.put(span, &mut stored), "the slot is free again");
            assert_eq!(near.with(span, |stored| stored.flows.len()), Some(0));
        }
    }
}
