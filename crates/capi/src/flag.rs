//! Booleans that tell programs whether a recording runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A boolean that programs read by address, and the instances behind it, in one word.
///
/// The first byte in memory is the boolean; the second one, counted by value, has a bit for each
/// instance. In a forked child, which cannot know yet whether a recording includes it, the boolean
/// is true and there are no instances.
#[derive(Debug)]
pub(crate) struct Flag(AtomicU32);

/// The word that a forked child finds.
pub(crate) const UNKNOWN: u32 = TRUE;

#[cfg(target_endian = "little")]
const TRUE: u32 = 1;
#[cfg(target_endian = "little")]
const SHIFT: u32 = 8;
#[cfg(target_endian = "big")]
const TRUE: u32 = 1 << 24;
#[cfg(target_endian = "big")]
const SHIFT: u32 = 0;

/// The meaning of a change of instances for the boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The bit changed.
    pub(crate) is_new: bool,
    /// It is the first one set, or the last one cleared.
    pub(crate) is_global: bool,
}

impl Flag {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns where programs find the boolean.
    pub(crate) fn address(&'static self) -> *mut AtomicBool {
        (&raw const self.0).cast_mut().cast()
    }

    /// Has forked children find [`UNKNOWN`]. To be called once.
    pub(crate) fn watch_forks(&'static self) {
        ferretto_shm::fork::store_in_child(&self.0, UNKNOWN);
    }

    /// The instances, as bits.
    #[inline(always)]
    pub(crate) fn instances(&self) -> u32 {
        self.0.load(Ordering::Relaxed) >> SHIFT & 0xff
    }

    /// True if a forked child has still to find out.
    #[inline(always)]
    pub(crate) fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNKNOWN
    }

    /// An instance begins.
    pub(crate) fn set(&self, place: usize) -> Change {
        self.change(|instances| instances | 1 << place)
    }

    /// An instance ends.
    pub(crate) fn clear(&self, place: usize) -> Change {
        self.change(|instances| instances & !(1 << place))
    }

    /// There are no instances.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn change(&self, change: impl Fn(u32) -> u32) -> Change {
        let word = |instances: u32| instances << SHIFT | if instances == 0 { 0 } else { TRUE };
        let instances = |word: u32| word >> SHIFT & 0xff;
        let update = |before| Some(word(change(instances(before))));
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, update)
            .unwrap_or_else(|before| before);
        let (before, after) = (instances(before), change(instances(before)));
        Change {
            is_new: before != after,
            is_global: before != after && (before == 0 || after == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boolean_is_true_while_there_are_instances() {
        static FLAG: Flag = Flag::new();
        // SAFETY: the flag lives for ever, and its first byte is always 0 or 1.
        let boolean = || unsafe { &*FLAG.address() }.load(Ordering::Relaxed);
        let change = |is_new, is_global| Change { is_new, is_global };
        assert!(!boolean());
        assert_eq!(FLAG.set(7), change(true, true));
        assert!(boolean());
        assert_eq!(FLAG.set(0), change(true, false));
        assert_eq!(FLAG.set(0), change(false, false));
        assert_eq!(FLAG.instances(), 0x81);
        assert_eq!(FLAG.clear(7), change(true, false));
        assert!(boolean());
        assert_eq!(FLAG.clear(0), change(true, true));
        assert!(!boolean());
        assert_eq!(FLAG.clear(0), change(false, false));
        FLAG.0.store(UNKNOWN, Ordering::Relaxed);
        assert!(boolean() && FLAG.is_unknown() && FLAG.instances() == 0);
    }
}
