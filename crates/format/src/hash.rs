//! The hash function of the protocol.

/// An incremental 64-bit FNV-1a hash, used for track uuids, machine ids and the checksums of trace
/// filters.
///
/// ```
/// use ferretto_format::Fnv1a;
///
/// assert_eq!(Fnv1a::hash(b"MyTrack"), 0x1056_8bfe_b6ff_d272);
/// assert_eq!(Fnv1a::new().update(b"My").update(b"Track").finish(), Fnv1a::hash(b"MyTrack"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// Creates the hash of the empty input.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes.
    #[must_use]
    pub const fn update(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
            index += 1;
        }
        Self(hash)
    }

    /// Returns the hash of all bytes added.
    pub const fn finish(self) -> u64 {
        self.0
    }

    /// Returns the hash of `bytes`.
    pub const fn hash(bytes: &[u8]) -> u64 {
        Self::new().update(bytes).finish()
    }
}

impl Default for Fnv1a {
    fn default() -> Self {
        Self::new()
    }
}
