//! Throttling of memory events: one event for each change by a step.
//!
//! Kernels with synthetic events do this themselves; for other kernels it is done here.

use rustc_hash::FxHashMap;

/// The size of a step in bytes, as in upstream's trigger.
const STEP: i64 = 0x8_0000;
/// The largest number of known counters. Beyond it all are forgotten, and some events are repeated.
const MAX_KNOWN: usize = 1 << 16;

/// The offsets of fields in a record of `kmem/rss_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RssLayout {
    mm_id: usize,
    member: usize,
    size: usize,
}

impl RssLayout {
    /// Returns the layout of this kernel's records, if they have all fields with known sizes.
    /// `offset_of` returns the offset of a field with a name and a size.
    pub(super) fn new(offset_of: impl Fn(&str, usize) -> Option<usize>) -> Option<Self> {
        Some(Self {
            mm_id: offset_of("mm_id", 4)?,
            member: offset_of("member", 4)?,
            size: offset_of("size", 8)?,
        })
    }

    fn read(self, record: &[u8]) -> Option<(Counter, i64)> {
        let word = |at: usize| record.get(at..)?.first_chunk().copied();
        let mm_id = u32::from_le_bytes(word(self.mm_id)?);
        let member = u32::from_le_bytes(word(self.member)?);
        let size = record.get(self.size..)?.first_chunk()?;
        Some(((mm_id, member), i64::from_le_bytes(*size)))
    }
}

/// An address space, and a kind of its memory.
type Counter = (u32, u32);

/// The latest step of each counter, with its time.
#[derive(Debug, Default)]
pub(super) struct Throttle(FxHashMap<Counter, (i64, u64)>);

impl Throttle {
    /// Returns true if the step of the record differs from the latest one. The buffers of CPUs are
    /// read one after the other, so a record may be older than the previous ones.
    pub(super) fn takes(&mut self, layout: RssLayout, time: u64, record: &[u8]) -> bool {
        let Some((counter, size)) = layout.read(record) else {
            // The decoder rejects the record.
            return true;
        };
        let step = size.div_euclid(STEP);
        if self.0.len() >= MAX_KNOWN && !self.0.contains_key(&counter) {
            self.0.clear();
        }
        let Some(latest) = self.0.get_mut(&counter) else {
            self.0.insert(counter, (step, time));
            return true;
        };
        let is_other = latest.0 != step;
        if time >= latest.1 {
            *latest = (step, time);
        }
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_written_once_per_step_and_older_records_do_not_count() {
        let layout = RssLayout {
            mm_id: 0,
            member: 4,
            size: 8,
        };
        let record = |mm_id: u32, member: u32, size: i64| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&mm_id.to_le_bytes());
            bytes[4..8].copy_from_slice(&member.to_le_bytes());
            bytes[8..].copy_from_slice(&size.to_le_bytes());
            bytes
        };
        let mut throttle = Throttle::default();
        let mut takes =
            |time, mm_id, member, size| throttle.takes(layout, time, &record(mm_id, member, size));
        assert!(takes(10, 1, 0, 0), "the first one");
        assert!(!takes(11, 1, 0, 4096));
        assert!(takes(12, 1, 1, 4096), "another kind of memory");
        assert!(takes(13, 2, 0, 4096), "another process");
        assert!(takes(20, 1, 0, STEP));
        assert!(!takes(21, 1, 0, 2 * STEP - 1));
        // Of another CPU, read later: written, but the next one is not compared with it.
        assert!(takes(15, 1, 0, 5 * STEP));
        assert!(!takes(22, 1, 0, STEP));
        assert!(takes(23, 1, 0, 5 * STEP));
        assert!(takes(24, 1, 0, -1), "less than nothing is a step, too");
        assert!(throttle.takes(layout, 0, &[0; 4]), "too short to be read");
    }
}
