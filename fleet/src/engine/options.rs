//! The limits of a session.

/// Limits of a session.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The memory in bytes that queries may use before they spill or fail; 0 for no limit.
    pub memory_limit: u64,
    /// The number of threads of a query; 0 for one per processor.
    pub threads: usize,
    /// The bytes that queries may write to temporary files; `None` for [`MAX_SPILL`].
    pub max_spill: Option<u64>,
}

/// The default limit of temporary files.
pub const MAX_SPILL: u64 = 16 << 30;
