//! Notices of a relay to its operator.

use std::fmt;
use std::io;
use std::sync::Arc;

use ferretto_ipc::Address;

use crate::pair::Side;

/// A message for the operator. No notice means that the relay stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// The relay is connected to the host.
    #[error("connected to {0}")]
    Connected(Address),
    /// The host is not reachable. The relay tries again.
    #[error("no tracing service: {0}")]
    Disconnected(String),
    /// A producer was disconnected.
    #[error("a producer of user {user} (process {pid}) was disconnected: {error}")]
    ProducerFailed {
        /// The producer's user.
        user: u32,
        /// The producer's process.
        pid: i32,
        /// The reason.
        error: io::Error,
    },
    /// A producer's connection to the host failed.
    #[error("the connection of process {pid} to the tracing service failed: {error}")]
    HostFailed {
        /// The producer's process.
        pid: i32,
        /// The reason.
        error: io::Error,
    },
    /// A user has too many producers.
    #[error("a producer of user {0} was refused: the user has too many producers")]
    TooMany(u32),
    /// Producers cannot connect at the moment.
    #[error("cannot accept producers: {0}")]
    AcceptFailed(io::Error),
}

impl Notice {
    pub(crate) fn failed(side: Side, (user, pid): (u32, i32), error: io::Error) -> Self {
        match side {
            Side::Local => Self::ProducerFailed { user, pid, error },
            Side::Remote => Self::HostFailed { pid, error },
        }
    }
}

type Report = Arc<dyn Fn(&Notice) + Send + Sync>;

/// The receiver of notices. The default drops them.
#[derive(Clone, Default)]
pub struct NoticeSink(Option<Report>);

impl NoticeSink {
    /// Calls `report` with each notice.
    pub fn new(report: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    pub(crate) fn report(&self, notice: &Notice) {
        if let Some(report) = &self.0 {
            report(notice);
        }
    }
}

impl fmt::Debug for NoticeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeSink").finish_non_exhaustive()
    }
}
