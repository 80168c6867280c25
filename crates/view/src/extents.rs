//! The extents of nodes: the times of their first and last events, and the extremes of counters.

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
