//! Notices of a host to its operator.

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferretto_ipc::frame::FrameTooLarge;
use ferretto_ipc::host::ReplyTooLarge;
use ferretto_ipc::socket::{PeerHost, QueueError, ReceiveError};
use ferretto_priority::BoostError;
use ferretto_service::{ClientId, Waiting};

use crate::origin::Origin;
use crate::remote::RemoteRefusal;

/// A message for the operator. No notice but [`Hangs`](Notice::Hangs) means that the host stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// A client broke the protocol and was disconnected.
    #[error("{client} was disconnected: {error}")]
    BadFrame {
        /// The client.
        client: ClientName,
        /// The size of the frame, and the limit.
        error: FrameTooLarge,
    },
    /// A connection from another machine was refused.
    #[error("a connection from {host} was refused: {refusal}")]
    RemoteRefused {
        /// The address of the machine.
        host: PeerHost,
        /// The reason.
        refusal: RemoteRefusal,
    },
    /// A producer on another machine did not identify itself and was disconnected.
    #[error("{client} was disconnected: it is on another machine and does not say who it is")]
    Unidentified {
        /// The client.
        client: ClientName,
    },
    /// Receiving from a client failed, and it was disconnected.
    #[error("{client} was disconnected: {error}")]
    ReceiveFailed {
        /// The client.
        client: ClientName,
        /// The reason.
        error: ReceiveError,
    },
    /// A client did not read its messages and was disconnected.
    #[error("{client} was disconnected: {error}")]
    QueueFull {
        /// The client.
        client: ClientName,
        /// The number of waiting bytes.
        error: QueueError,
    },
    /// A client with unread replies stopped reading and was disconnected.
    #[error("{client} was disconnected: it has not read for {seconds} s")]
    Stalled {
        /// The client.
        client: ClientName,
        /// The time without a read, in seconds.
        seconds: u64,
    },
    /// A reply was too large to be sent; the request was rejected instead.
    #[error("a request of {client} was rejected: {error}")]
    ReplyTooLarge {
        /// The client.
        client: ClientName,
        /// The reply's method and size.
        error: ReplyTooLarge,
    },
    /// Shared memory of a producer was refused or could not be created.
    #[error("no shared memory with {client}: {error}")]
    SharedMemory {
        /// The client.
        client: ClientName,
        /// The reason.
        error: ferretto_shm::RegionError,
    },
    /// Connections are refused, until there are far fewer.
    #[error("connections of {origin} are refused: there are {limit} already")]
    TooManyConnections {
        /// The origin of the connections.
        origin: Origin,
        /// The largest number of connections.
        limit: usize,
    },
    /// The clients of one user do not read, or do not finish their frames, and the one with the
    /// most bytes was disconnected.
    #[error("{client} was disconnected: more than {limit} bytes are held for clients of {origin}")]
    TooMuchHeld {
        /// The client.
        client: ClientName,
        /// The origin of the client.
        origin: Origin,
        /// The limit of bytes held for its clients together.
        limit: usize,
    },
    /// The clients of a user cause too much work, and are served less often as long as they do.
    #[error("clients of {origin} are throttled: they use more than {percent} % of a CPU")]
    Throttled {
        /// The origin of the clients.
        origin: Origin,
        /// The share of a CPU that they may use, in percent.
        percent: u64,
    },
    /// The clients of a user were throttled for long, and the one with the most work was
    /// disconnected.
    #[error(
        "{client} was disconnected: clients of {origin} have been throttled for {seconds} s, and this one caused the most work"
    )]
    TooMuchWork {
        /// The client.
        client: ClientName,
        /// The origin of the client.
        origin: Origin,
        /// The time for which they were throttled, in seconds.
        seconds: u64,
    },
    /// Descriptors became scarce, and the origin with the most lost a connection.
    #[error(
        "{client} was disconnected: descriptors are scarce, and {origin} has the most connections"
    )]
    Evicted {
        /// The client.
        client: ClientName,
        /// The origin of the client.
        origin: Origin,
    },
    /// A client passed a descriptor although too many are held for its user, most of them because
    /// closing them takes long.
    #[error("{client} was disconnected: too many descriptors are held for clients of {origin}")]
    TooManyDescriptors {
        /// The client.
        client: ClientName,
        /// The origin of the client.
        origin: Origin,
    },
    /// An installed description of fields could not be read; traces do not contain it.
    #[error("{} is not put into traces: {error}", path.display())]
    ExtensionDescriptor {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The service's priority could not be lowered to its default, or to that of other sessions.
    #[error("the priority stays as it is: {error}")]
    Priority {
        /// The reason.
        error: BoostError,
    },
    /// The host hangs, and is about to abort the process.
    #[error("the service ends itself: it has been busy with the same thing for {seconds} s")]
    Hangs {
        /// The duration in seconds, at least.
        seconds: u64,
    },
    /// A session cannot end because of data sources that do not answer.
    #[error("{}", waiting_text(.0))]
    Waiting(Waiting),
    /// A request of a client could not be carried out completely.
    #[error("{0}")]
    Service(String),
    /// A connection could not be accepted. The host soon tries again.
    #[error("a connection could not be accepted: {0}")]
    AcceptFailed(#[source] io::Error),
}

fn waiting_text(waiting: &Waiting) -> String {
    let shown = |name: &[u8]| -> String {
        let text = String::from_utf8_lossy(name);
        // Programs choose their names freely.
        text.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    };
    let names = waiting
        .sources
        .iter()
        .map(|(producer, source)| format!("{} of {}", shown(source), shown(producer)));
    let what = if waiting.stop {
        "to stop"
    } else {
        "to hand over its last data"
    };
    let names: Vec<String> = names.collect();
    format!("waiting for {} {what}", names.join(", "))
}

/// The name of a client in notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName {
    /// The id of the connection.
    pub client: ClientId,
    /// `producer` or `consumer`.
    pub role: &'static str,
    /// The process id, if known.
    pub pid: Option<i32>,
}

impl fmt::Display for ClientName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.role, self.client.0)?;
        match self.pid {
            Some(pid) => write!(out, " (pid {pid})"),
            None => Ok(()),
        }
    }
}

/// The receiver of notices.
#[derive(Clone, Default)]
pub struct NoticeSink(Option<Arc<Report>>);

type Report = dyn Fn(&Notice) + Send + Sync;

impl NoticeSink {
    /// Calls `report` with each notice, on the host's thread.
    pub fn new(report: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Prints to standard error, at most 20 lines in 10 seconds: a client that provokes notices
    /// must not fill a log.
    pub fn stderr(program: &'static str) -> Self {
        let state = Mutex::new((Instant::now(), 0_u32));
        Self::new(move |notice| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0.elapsed() > Duration::from_secs(10) {
                if state.1 > 20 {
                    let left_out = state.1 - 20;
                    print(format!(
                        "{program}: {left_out} more such messages were left out\n"
                    ));
                }
                *state = (Instant::now(), 0);
            }
            state.1 = state.1.saturating_add(1);
            if state.1 <= 20 {
                print(format!("{program}: {notice}\n"));
            }
        })
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn report(&self, notice: &Notice) {
        if let Some(report) = &self.0 {
            report(notice);
        }
    }
}

impl fmt::Debug for NoticeSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() {
            "NoticeSink"
        } else {
            "NoticeSink(none)"
        })
    }
}

/// Prints to standard error in one piece. A service goes on if nobody can read its notices.
fn print(line: String) {
    let _ = io::stderr().write_all(line.as_bytes());
}
