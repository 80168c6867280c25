//! The steps that wait for the end of a flush, or of a scrape.

use super::config::BufferGroup;
use crate::event::ClientId;

/// The step that follows a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterFlush {
    Nothing,
    Reply {
        client: ClientId,
        request_id: Option<u64>,
    },
    WriteFile,
    Stop,
    /// Copies this group of the buffers.
    Clone {
        clone: u64,
        group: BufferGroup,
    },
}

/// The step after producers' memory was scraped.
#[derive(Debug, Clone, Copy)]
pub(super) enum AfterScrape {
    /// A flush is over.
    Flush { then: AfterFlush, success: bool },
    /// The session has ended.
    Stop,
}
