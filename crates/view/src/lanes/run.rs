//! Runs of lanes in an index.

use std::ops::Range;

use ferretto_tables::StringId;

use super::{Known, Label, Shown};
use crate::coded::Run;
use crate::nodes::NONE;
use crate::varints::{self, Varints};

/// The run must have all that is [`Known`] of it.
impl Run for Shown {
    fn start(&self) -> i64 {
        self.start
    }

    fn reaches(&self, window: &Range<i64>) -> bool {
        self.end > window.start
    }

    fn put(&self, before: Option<&Self>, bytes: &mut Vec<u8>) {
        let (start, row) = before.map_or((0, 0), |before| (before.start, before.row));
        let label = self.known.map_or(Label::NONE, |known| known.label);
        let is_open = self.known.is_some_and(|known| known.is_open);
        varints::put_signed(bytes, self.start.wrapping_sub(start));
        varints::put_signed(bytes, self.end.wrapping_sub(self.start));
        varints::put_signed(bytes, i64::from(self.row) - i64::from(row));
        varints::put(bytes, u64::from(self.count) << 1 | u64::from(is_open));
        bytes.push(self.load);
        varints::put(bytes, label.name.raw().into());
        // Most rows refer to no other node, which has the largest number.
        varints::put(bytes, label.other.wrapping_sub(NONE).into());
    }

    fn take(before: Option<&Self>, varints: &mut Varints<'_>) -> Self {
        let (start, row) = before.map_or((0, 0), |before| (before.start, before.row));
        let start = varints.signed().wrapping_add(start);
        let end = varints.signed().wrapping_add(start);
        let row = varints.signed().wrapping_add(row.into()) as u32;
        let count = varints.next();
        let load = varints.byte();
        let label = Label {
            name: StringId::from_raw(varints.next() as u32),
            other: (varints.next() as u32).wrapping_add(NONE),
        };
        let is_open = count & 1 == 1;
        Self {
            start,
            end,
            row,
            count: (count >> 1) as u32,
            load,
            known: Some(Known { label, is_open }),
        }
    }
}
