//! The data sources that read files: their constructors, and their interface to the producer.
//!
//! `linux.ftrace` and `perfetto.metatrace` are not among them: all recordings share their input.

use std::fmt;

use ferretto_metatrace::Event as Activity;
use ferretto_proto::{DataSourceConfig, DecodeError};

use crate::PacketSink;
use crate::ftrace::Metadata;

/// An instance of a data source, created for one recording and dropped at its end.
///
/// The producer calls [`start`](Self::start) once, then [`poll`](Self::poll) at once and with the
/// instance's period, and [`flush`](Self::flush) whenever the service requests it. At the end, it
/// calls [`poll_last`](Self::poll_last) and flushes.
pub trait DataSource: fmt::Debug + Send {
    /// Writes the packets that are recorded once.
    fn start(&mut self) {}

    /// Returns the time between calls of [`poll`](Self::poll) in milliseconds; `None` to disable
    /// polling.
    fn poll_period_ms(&self) -> Option<u32> {
        None
    }

    /// Reads and writes the polled values.
    fn poll(&mut self) {}

    /// Reads and writes all polled values at the end, whatever their period: the last values are
    /// those that a recorded program leaves behind.
    fn poll_last(&mut self) {
        self.poll();
    }

    /// Commits everything written so far.
    fn flush(&mut self);

    /// Starts a [`flush`](Self::flush) without waiting. Returns true if it is complete; otherwise
    /// [`is_flushed`](Self::is_flushed) is called until it is.
    fn begin_flush(&mut self) -> bool {
        self.flush();
        true
    }

    /// Continues the started flush. Returns true once, on completion.
    fn is_flushed(&mut self) -> bool {
        true
    }

    /// Clears incremental state, so that a reader can start here.
    fn clear_incremental_state(&mut self) {}

    /// Receives the metadata of the session's kernel events.
    fn on_metadata(&mut self, _metadata: &Metadata) {}
}

/// A callback for problems that do not prevent recording.
pub(crate) type Problems<'a> = &'a dyn Fn(&str);

/// The reason why an instance cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The config is malformed.
    #[error("its config cannot be decoded: {0}")]
    Config(#[from] DecodeError),
    /// This machine or user does not support the data source.
    #[error("{0}")]
    Unavailable(String),
}

/// Creates an instance from a config.
type Create = fn(
    &DataSourceConfig,
    Box<dyn PacketSink>,
    Problems<'_>,
) -> Result<Box<dyn DataSource>, CreateError>;

/// A kind of data source.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The data source name in configs.
    pub(crate) name: &'static str,
    /// Creates an instance from a config.
    pub(crate) create: Create,
    /// The metatrace activity of starting an instance.
    pub(crate) starting: Option<Activity>,
    /// The metatrace activity of polling an instance.
    pub(crate) polling: Option<Activity>,
    /// The metatrace activity of handling kernel events' metadata, for kinds that do.
    pub(crate) on_metadata: Option<Activity>,
    /// Set if packets rely on earlier ones.
    pub(crate) has_incremental_state: bool,
}
