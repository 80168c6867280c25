//! The progress of imports.

/// The progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of bytes read.
    pub bytes: u64,
    /// The size of the file, if it is known.
    pub of: Option<u64>,
}

/// The return value of a progress callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// Continue the import.
    Yes,
    /// Cancel the import, which then fails with
    /// [`ImportError::Cancelled`](crate::ImportError::Cancelled).
    No,
}
