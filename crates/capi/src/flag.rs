//! Booleans that are true while a recording runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A boolean that programs read by address, and the active instances, in one word.
///
/// The first byte in memory is the boolean. Another byte has a bit for each instance, and a third
/// one is set in a forked child as long as the recordings are not known; then the boolean is true
/// even without instances.
#[derive(Debug)]
pub(crate) struct Flag(AtomicU32);

/// The initial value in a forked child.
pub(crate) const UNKNOWN: u32 = TRUE | DOUBT;

#[cfg(target_endian = "little")]
const TRUE: u32 = 1;
#[cfg(target_endian = "little")]
const SHIFT: u32 = 8;
#[cfg(target_endian = "little")]
const DOUBT: u32 = 1 << 16;
#[cfg(target_endian = "big")]
const TRUE: u32 = 1 << 24;
#[cfg(target_endian = "big")]
const SHIFT: u32 = 0;
#[cfg(target_endian = "big")]
const DOUBT: u32 = 1 << 8;

/// The effect of a change of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// True if the bit changed.
    pub(crate) is_new: bool,
    /// True if it is the first bit set, or the last one cleared.
    pub(crate) is_global: bool,
}

impl Flag {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the address of the boolean for programs.
    pub(crate) fn address(&'static self) -> *mut AtomicBool {
        (&raw const self.0).cast_mut().cast()
    }

    /// Resets the flag to [`UNKNOWN`] in forked children. Must be called once.
    pub(crate) fn watch_forks(&'static self) {
        ferretto_shm::fork::store_in_child(&self.0, UNKNOWN);
    }

    /// Returns the instances as bits.
    #[inline(always)]
    pub(crate) fn instances(&self) -> u32 {
        self.0.load(Ordering::Relaxed) >> SHIFT & 0xff
    }

    /// Returns true if the instances are not known yet in a forked child.
    #[inline(always)]
    pub(crate) fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) & DOUBT != 0
    }

    /// Adds an instance.
    pub(crate) fn set(&self, slot: usize) -> Change {
        self.change(|instances| instances | 1 << slot)
    }

    /// Removes an instance.
    pub(crate) fn clear(&self, slot: usize) -> Change {
        self.change(|instances| instances & !(1 << slot))
    }

    /// Removes all instances.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Removes all instances in a forked child, where the new ones are not known yet.
    pub(crate) fn forked(&self) {
        self.0.store(UNKNOWN, Ordering::Release);
    }

    /// Makes the instances known that were added meanwhile in a forked child.
    pub(crate) fn decided(&self) {
        let update = |before| Some(Self::word(before >> SHIFT & 0xff, 0));
        // The update never fails.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, update);
    }

    fn word(instances: u32, doubt: u32) -> u32 {
        let boolean = if instances | doubt == 0 { 0 } else { TRUE };
        instances << SHIFT | doubt | boolean
    }

    fn change(&self, change: impl Fn(u32) -> u32) -> Change {
        let instances = |word: u32| word >> SHIFT & 0xff;
        let update = |before| Some(Self::word(change(instances(before)), before & DOUBT));
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
        // SAFETY: the flag is static, and its first byte is always 0 or 1.
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
        assert_eq!(FLAG.set(3), change(true, true));
        assert!(boolean() && FLAG.is_unknown() && FLAG.instances() == 8);
        FLAG.decided();
        assert!(boolean() && !FLAG.is_unknown() && FLAG.instances() == 8);
        FLAG.forked();
        assert!(boolean() && FLAG.is_unknown() && FLAG.instances() == 0);
        FLAG.decided();
        assert!(!boolean() && !FLAG.is_unknown());
    }
}
