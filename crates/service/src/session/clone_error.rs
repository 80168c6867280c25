//! Refusals of CloneSession.

/// Why there is no clone, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CloneError {
    #[error("No tracing sessions eligible for bugreport found")]
    NothingEligible,
    #[error("Tracing session not found")]
    NotFound,
    #[error("Not allowed to clone a session from another UID")]
    OtherUser,
    #[error(
        "Failed to clone 'write_into_file' session: a file descriptor is required to copy existing \
         file"
    )]
    NoOutput,
    #[error("Failed to clone 'write_into_file' session: failed to copy existing file: {0}")]
    CopyFile(String),
    #[error("Failed to write the trace file: {0}")]
    WriteFile(String),
    #[error("Buffer allocation failed while attempting to clone")]
    ClearBuffer,
    #[error("Buffer allocation failed")]
    CopyBuffer,
    #[error("Buffer id allocation failed")]
    NoBufferIds,
    #[error("Original session ended")]
    SourceEnded,
    #[error("The consumer is already attached to another tracing session")]
    AlreadyAttached,
    /// Upstream sets no bound.
    #[error("Too many concurrent tracing sesions ({0})")]
    TooManySessions(usize),
    #[error("The clone was freed")]
    Freed,
}
