//! A set of tracks.

/// The largest number of remembered tracks. A thread that uses more describes tracks again, which
/// costs some bytes.
const MAX: usize = 1 << 16;

/// The uuids of tracks, with open addressing. 0 marks an empty slot and is never a member.
#[derive(Debug, Default)]
pub(in crate::track_event) struct TrackSet {
    slots: Vec<u64>,
    used: usize,
}

impl TrackSet {
    pub(in crate::track_event) fn clear(&mut self) {
        self.slots.fill(0);
        self.used = 0;
    }

    #[inline]
    pub(in crate::track_event) fn contains(&self, uuid: u64) -> bool {
        let Some(mask) = self.slots.len().checked_sub(1) else {
            return false;
        };
        let mut at = hash(uuid) & mask;
        loop {
            match self.slots[at] {
                0 => return false,
                known if known == uuid => return true,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a uuid.
    pub(in crate::track_event) fn insert(&mut self, uuid: u64) {
        if uuid == 0 || self.contains(uuid) {
            return;
        }
        if self.used >= MAX {
            self.clear();
        }
        if self.used * 2 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(16);
            let old = std::mem::replace(&mut self.slots, vec![0; size]);
            old.into_iter()
                .filter(|&uuid| uuid != 0)
                .for_each(|uuid| self.put(uuid));
        }
        self.used += 1;
        self.put(uuid);
    }

    fn put(&mut self, uuid: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash(uuid) & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = uuid;
    }
}

/// Returns the start of the search for a uuid, before masking.
#[inline]
fn hash(uuid: u64) -> usize {
    (uuid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_tracks_stays_bounded() {
        let mut set = TrackSet::default();
        assert!(!set.contains(5));
        set.insert(0);
        for uuid in 1..=1000 {
            set.insert(uuid);
            set.insert(uuid);
        }
        assert_eq!(set.used, 1000);
        assert!((1..=1000).all(|uuid| set.contains(uuid)) && !set.contains(1001));
        (0..3 * MAX as u64).for_each(|uuid| set.insert(uuid << 20 | 1));
        assert!(set.used <= MAX && set.slots.len() <= 4 * MAX);
        set.clear();
        assert!(!set.contains(1));
    }
}
