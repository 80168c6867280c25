//! The values of most spans, where they are found without asking the registry: that takes two locks and a hash table for
//! each question, and memory for each span.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::stored::Stored;

/// How many spans can have their values here at the same time, if their numbers fall on different places.
const PLACES: usize = 256;

/// Places for values, by the number of their span. A span whose place is taken has them in its extensions.
#[derive(Default)]
pub(crate) struct Near(OnceLock<Box<[Place]>>);

#[derive(Debug, Default)]
struct Place {
    /// The span whose values are here, 0 for none. Changed under the lock only. Whoever knows a span has learnt of it from
    /// the thread that made it, and so sees its number here.
    span: AtomicU64,
    /// Nobody runs code of programs while holding it.
    stored: Mutex<Stored>,
}

impl Place {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of(&self, span: u64) -> bool {
        self.span.load(Ordering::Relaxed) == span
    }
}

impl Near {
    #[inline]
    fn place(&self, span: u64) -> Option<&Place> {
        let mixed = span.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0.get()?.get((mixed >> 32) as usize % PLACES)
    }

    /// Takes what a new span has, if there is room.
    #[inline]
    pub(crate) fn put(&self, span: u64, stored: &mut Stored) -> bool {
        self.0
            .get_or_init(|| (0..PLACES).map(|_| Place::default()).collect());
        let Some(place) = self.place(span).filter(|place| place.is_of(0)) else {
            return false;
        };
        let mut values = place.lock();
        if !place.is_of(0) {
            return false;
        }
        *values = std::mem::take(stored);
        place.span.store(span, Ordering::Relaxed);
        true
    }

    /// Calls `act` with what a span has, if that is here.
    #[inline]
    pub(crate) fn with<R>(&self, span: u64, act: impl FnOnce(&mut Stored) -> R) -> Option<R> {
        let place = self.place(span).filter(|place| place.is_of(span))?;
        let mut values = place.lock();
        // The span cannot end meanwhile, as somebody asks for it.
        Some(act(&mut values))
    }

    /// The span is gone, and its number may be given to another.
    #[inline]
    pub(crate) fn forget(&self, span: u64) {
        if let Some(place) = self.place(span).filter(|place| place.is_of(span)) {
            let mut values = place.lock();
            values.release();
            place.span.store(0, Ordering::Relaxed);
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
