//! The data sources that read files: their constructors, and the interface to the producer.
//!
//! `linux.ftrace` and `perfetto.metatrace` are not among them: their input is shared by all
//! recordings.

use std::fmt;

use ferretto_metatrace::Event as Activity;
use ferretto_proto::{DataSourceConfig, DecodeError};

use crate::PacketSink;
use crate::ftrace::Metadata;

/// An instance of a data source, made for one recording and dropped when that ends.
///
/// The producer calls [`start`](Self::start) once, then [`poll`](Self::poll) as often as the
/// instance wants it, and [`flush`](Self::flush) whenever the service asks and at the end.
pub trait DataSource: fmt::Debug + Send {
    /// Begins: writes the packets that are recorded once.
    fn start(&mut self) {}

    /// Returns the time between calls of [`poll`](Self::poll) in milliseconds; `None` if it is not
    /// to be called.
    fn poll_period_ms(&self) -> Option<u32> {
        None
    }

    /// Reads the polled values, and writes them.
    fn poll(&mut self) {}

    /// Hands everything written so far to the service.
    fn flush(&mut self);

    /// Begins a [`flush`](Self::flush) that does not wait. Returns true if it is done; otherwise
    /// [`is_flushed`](Self::is_flushed) is called until it is.
    fn begin_flush(&mut self) -> bool {
        self.flush();
        true
    }

    /// Goes on with the flush that was begun. Returns true once, when it is done.
    fn is_flushed(&mut self) -> bool {
        true
    }

    /// Clears incremental state, so that a reader can begin here.
    fn clear_incremental_state(&mut self) {}

    /// Learns of the processes that kernel events of the same recording were about.
    fn on_metadata(&mut self, _metadata: &Metadata) {}
}

/// Takes problems that do not keep a data source from recording.
pub(crate) type Problems<'a> = &'a dyn Fn(&str);

/// The reason why there is no instance.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The config is malformed.
    #[error("its config cannot be decoded: {0}")]
    Config(#[from] DecodeError),
    /// This machine or user does not have it.
    #[error("{0}")]
    Unavailable(String),
}

/// Makes an instance from a config.
type Create = fn(
    &DataSourceConfig,
    Box<dyn PacketSink>,
    Problems<'_>,
) -> Result<Box<dyn DataSource>, CreateError>;

/// A kind of data source.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The name that configs ask for.
    pub(crate) name: &'static str,
    /// Makes an instance from a config.
    pub(crate) create: Create,
    /// The activity that starting an instance is in the metatrace.
    pub(crate) starting: Option<Activity>,
    /// The activity that polling an instance is in the metatrace.
    pub(crate) polling: Option<Activity>,
    /// The activity that learning of processes from kernel events is in the metatrace, for kinds
    /// that do.
    pub(crate) on_metadata: Option<Activity>,
    /// Packets rely on earlier ones.
    pub(crate) has_incremental_state: bool,
}
