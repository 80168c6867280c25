//! Flush requests in progress.

use std::collections::BTreeMap;

/// The number of pending parts of each request. Acknowledging a request also acknowledges all
/// earlier ones.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    open: BTreeMap<u64, usize>,
}

impl Flushes {
    pub(super) fn begin(&mut self, request: u64, parts: usize) {
        *self.open.entry(request).or_default() += parts;
    }

    pub(super) fn part_done(&mut self, request: u64) {
        if let Some(parts) = self.open.get_mut(&request) {
            *parts = parts.saturating_sub(1);
        }
    }

    /// Takes the last completed request before which all requests are completed.
    pub(super) fn take_finished(&mut self) -> Option<u64> {
        let mut last = None;
        while let Some(first) = self.open.first_entry().filter(|first| *first.get() == 0) {
            last = Some(*first.key());
            first.remove();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_012_a_flush_is_not_acknowledged_before_earlier_ones() {
        let mut flushes = Flushes::default();
        flushes.begin(1, 2);
        assert_eq!(flushes.take_finished(), None);
        flushes.begin(2, 0);
        assert_eq!(flushes.take_finished(), None, "1 is not done");
        flushes.begin(3, 1);
        flushes.part_done(1);
        assert_eq!(flushes.take_finished(), None);
        flushes.part_done(1);
        assert_eq!(flushes.take_finished(), Some(2));
        flushes.part_done(7);
        flushes.part_done(3);
        assert_eq!(flushes.take_finished(), Some(3));
        assert_eq!(flushes.take_finished(), None);
    }
}
