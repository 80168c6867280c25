//! A set of tracks.

/// Most tracks that are remembered. A thread that has used more describes them again, which costs some bytes.
const MAX: usize = 1 << 16;

/// The numbers of tracks: open addressing; 0 is an empty place, and never in the set.
#[derive(Debug, Default)]
pub(super) struct Uuids {
    places: Vec<u64>,
    used: usize,
}

impl Uuids {
    pub(super) fn clear(&mut self) {
        self.places.fill(0);
        self.used = 0;
    }

    #[inline]
    pub(super) fn contains(&self, uuid: u64) -> bool {
        let Some(mask) = self.places.len().checked_sub(1) else {
            return false;
        };
        let mut at = place(uuid) & mask;
        loop {
            match self.places[at] {
                0 => return false,
                known if known == uuid => return true,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a number, if it is not in the set.
    pub(super) fn insert(&mut self, uuid: u64) {
        if uuid == 0 || self.contains(uuid) {
            return;
        }
        if self.used >= MAX {
            self.clear();
        }
        if self.used * 2 >= self.places.len() {
            let size = (self.places.len() * 2).max(16);
            let old = std::mem::replace(&mut self.places, vec![0; size]);
            old.into_iter()
                .filter(|&uuid| uuid != 0)
                .for_each(|uuid| self.put(uuid));
        }
        self.used += 1;
        self.put(uuid);
    }

    fn put(&mut self, uuid: u64) {
        let mask = self.places.len() - 1;
        let mut at = place(uuid) & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = uuid;
    }
}

/// Where the search for a number begins, before masking.
#[inline]
fn place(uuid: u64) -> usize {
    (uuid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_tracks_stays_bounded() {
        let mut uuids = Uuids::default();
        assert!(!uuids.contains(5));
        uuids.insert(0);
        for uuid in 1..=1000 {
            uuids.insert(uuid);
            uuids.insert(uuid);
        }
        assert_eq!(uuids.used, 1000);
        assert!((1..=1000).all(|uuid| uuids.contains(uuid)) && !uuids.contains(1001));
        (0..3 * MAX as u64).for_each(|uuid| uuids.insert(uuid << 20 | 1));
        assert!(uuids.used <= MAX && uuids.places.len() <= 4 * MAX);
        uuids.clear();
        assert!(!uuids.contains(1));
    }
}
