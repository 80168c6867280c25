//! The ends of arrows.

use ferretto_tables::schema::FlowTable;

/// The ends of arrows.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// Slice, the other slice, and true if the arrow starts at the former; sorted.
    ends: Vec<(u32, u32, bool)>,
}

impl Flows {
    pub(crate) fn new(table: &FlowTable) -> Self {
        let mut ends = Vec::with_capacity(2 * table.len() as usize);
        for row in 0..table.len() {
            let (from, to) = (table.slice_out().get(row), table.slice_in().get(row));
            ends.push((from, to, true));
            ends.push((to, from, false));
        }
        ends.sort_unstable();
        Self { ends }
    }

    /// Returns the slices at the other ends of a slice's arrows, and true for arrows that start at
    /// it.
    pub(crate) fn of(&self, slice: u32) -> impl Iterator<Item = (u32, bool)> {
        let first = self.ends.partition_point(|end| end.0 < slice);
        let ends = self.ends[first..]
            .iter()
            .take_while(move |end| end.0 == slice);
        ends.map(|(_, other, is_out)| (*other, *is_out))
    }
}
