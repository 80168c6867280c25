//! The values of most spans, where they are found without asking the registry: that takes two locks
//! and a hash table for each question, and memory for each span.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::numbers::{Numbers, Shared};
use super::stored::Stored;

/// The number of spans that can have their values here at the same time, if their numbers fall on
/// different places.
const PLACES: usize = 256;

/// Stands for a span in a place that is being filled.
const FILLING: u64 = u64::MAX;

/// Places for values, by the number of their span. A span whose place is taken has them in its
/// extensions.
#[derive(Default)]
pub(crate) struct Near(OnceLock<Box<[Place; PLACES]>>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// The span whose values are here, 0 for none. A thread that knows a span has learnt of it from
    /// the thread that made it, and so sees its number and its values here.
    span: AtomicU64,
    /// The values, if they are a few numbers and nothing has been added. They are the same until
    /// the span ends or they move to the others.
    numbers: Shared,
    /// Nobody runs code of programs while holding it.
    stored: Mutex<Stored>,
}

impl Place {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_of(&self, span: u64) -> bool {
        self.span.load(Ordering::Acquire) == span
    }

    /// Gives the place up, with values that are not numbers.
    #[inline(never)]
    fn release(&self) {
        self.lock().release();
        self.span.store(0, Ordering::Release);
    }

    /// Takes the slot, if it is free, for a span with the values that `fill` puts there.
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

/// The place for the values of a span. Spans that a thread has open at the same time have different
/// ones, mostly, and so have those of different threads. One that follows another has the same
/// again, which is in the cache: registries count in the low bits, and in the middle ones have the
/// thread.
#[inline]
fn at(places: &[Place; PLACES], span: u64) -> &Place {
    let thread = span >> 38;
    let place = span.wrapping_add(thread.wrapping_mul(29));
    &places[place as usize % PLACES]
}

/// Places that are all free; not on the stack, which may be small.
#[cold]
fn places() -> Box<[Place; PLACES]> {
    let places: Box<[_]> = (0..PLACES).map(|_| Place::default()).collect();
    places.try_into().expect("there are as many")
}

impl Near {
    #[inline]
    fn place(&self, span: u64) -> Option<&Place> {
        self.0.get().map(|places| at(places, span))
    }

    #[inline]
    fn place_for(&self, span: u64) -> &Place {
        at(self.0.get_or_init(places), span)
    }

    #[inline]
    fn place_of(&self, span: u64) -> Option<&Place> {
        self.place(span).filter(|place| place.is_of(span))
    }

    /// Stores the values of a new span, if there is room.
    #[inline]
    pub(crate) fn put(&self, span: u64, stored: &mut Stored) -> bool {
        let fill = |place: &Place| *place.lock() = std::mem::take(stored);
        self.place_for(span).fill(span, fill)
    }

    /// Stores the values of a new span that has only numbers, if there is room.
    #[inline]
    pub(crate) fn put_numbers(&self, span: u64, numbers: &Numbers) -> bool {
        let fill = |place: &Place| place.numbers.set(numbers);
        self.place_for(span).fill(span, fill)
    }

    /// Returns the values of a span, if that is here and only numbers.
    #[inline]
    pub(crate) fn numbers(&self, span: u64) -> Option<&Shared> {
        let numbers = &self.place_of(span)?.numbers;
        (!numbers.is_empty()).then_some(numbers)
    }

    /// Calls `act` with the values of a span, if they are here.
    #[inline]
    pub(crate) fn with<R>(&self, span: u64, act: impl FnOnce(&mut Stored) -> R) -> Option<R> {
        let place = self.place_of(span)?;
        let mut values = place.lock();
        for (index, tag, bits) in place.numbers.iter() {
            values.push_number(index, tag, bits);
        }
        place.numbers.clear();
        // The span cannot end meanwhile, as the caller holds it.
        Some(act(&mut values))
    }

    /// The span is gone, and its number may be given to another.
    #[inline]
    pub(crate) fn forget(&self, span: u64) {
        if let Some(place) = self.place_of(span) {
            if place.numbers.is_empty() {
                return place.release();
            }
            place.numbers.clear();
            place.span.store(0, Ordering::Release);
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

    /// Something of a span that tells it from others.
    fn flow(span: u64) -> (Flow, bool) {
        (Flow::process(span), false)
    }

    #[test]
    fn spans_have_what_is_theirs_until_they_end() {
        let near = Near::default();
        assert!(near.with(1, |_| ()).is_none());
        let mut kept = Vec::new();
        for span in 1..=4 * PLACES as u64 {
            let mut stored = Stored::default();
            stored.flows.push(flow(span));
            if near.put(span, &mut stored) {
                kept.push(span);
            } else {
                assert_eq!(stored.flows, [flow(span)], "it stays with the caller");
            }
        }
        assert!(kept.len() > PLACES / 2 && kept.len() <= PLACES);
        for span in 1..=4 * PLACES as u64 {
            let flows = near.with(span, |stored| stored.flows.clone());
            let expected = kept.contains(&span).then(|| vec![flow(span)]);
            assert_eq!(flows, expected);
        }
        for &span in &kept {
            near.forget(span);
            assert!(near.with(span, |_| ()).is_none());
            let mut stored = Stored::default();
            assert!(near.put(span, &mut stored), "there is room again");
            assert_eq!(near.with(span, |stored| stored.flows.len()), Some(0));
        }
    }
}
