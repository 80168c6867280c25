//! The extents of nodes: the times of their first and last events, and the extremes of counters.

use crate::nodes::{Content, Node};
use crate::view::View;

/// The extent of a node. Times count from the beginning of the trace; NaN if there are none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// The extremes of a counter.
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// The size of a written extent.
const SIZE: usize = 32;

impl Extent {
    /// Returns the extent as bytes.
    pub(crate) fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let values = [self.first, self.last, self.min, self.max];
        for (written, value) in bytes.chunks_exact_mut(8).zip(values) {
            written.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads written extents.
    pub(crate) fn all_of(bytes: &[u8]) -> Vec<Self> {
        let (extents, _) = bytes.as_chunks::<SIZE>();
        let read = |bytes: &[u8; SIZE]| {
            let (values, _) = bytes.as_chunks::<8>();
            let value = |at: usize| f64::from_le_bytes(values[at]);
            Self {
                first: value(0),
                last: value(1),
                min: value(2),
                max: value(3),
            }
        };
        extents.iter().map(read).collect()
    }
}

impl View {
    /// Returns the extents of all nodes.
    pub(crate) fn extents(&self) -> &[Extent] {
        let compute = || self.scene().nodes().iter().map(|node| self.extent(node));
        self.first_picture()
            .extents
            .get_or_init(|| compute().collect())
    }

    fn extent(&self, node: &Node) -> Extent {
        let times = self.times_of(node);
        let (first, last) = times.map_or((f64::NAN, f64::NAN), |(begin, end)| {
            (self.relative(begin), self.relative(end))
        });
        let (min, max) = match node.content {
            Content::Counter(_) => self.extremes(node.lane),
            _ => (f64::NAN, f64::NAN),
        };
        Extent {
            first,
            last,
            min,
            max,
        }
    }

    /// Returns the times of the first and last event of a node.
    fn times_of(&self, node: &Node) -> Option<(i64, i64)> {
        if let Content::Counter(_) = node.content {
            let rows = self.scene().counters().rows(node.lane);
            let ts = self.trace().tables().counter.ts();
            return Some((ts.get(*rows.first()?), ts.get(*rows.last()?)));
        }
        let (lanes, times) = self.lanes(&node.content)?;
        let mut extent: Option<(i64, i64)> = None;
        for lane in node.lane..node.lane + u32::from(node.depth) {
            let rows = lanes.rows(lane);
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                let (begin, end) = (times.start(*first), times.end(*last));
                let known = extent.unwrap_or((begin, end));
                extent = Some((known.0.min(begin), known.1.max(end)));
            }
        }
        extent
    }

    fn extremes(&self, counter: u32) -> (f64, f64) {
        let value = self.trace().tables().counter.value();
        let rows = self.scene().counters().rows(counter).iter();
        let values = rows.map(|row| value.get(*row));
        values.fold((f64::NAN, f64::NAN), |(min, max), value| {
            (min.min(value), max.max(value))
        })
    }
}
