//! The calls of a recording, their answers, and other events.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};
use ferretto_ipc::client::DisconnectReason;
use ferretto_ipc::port::consumer::{Port, Request};
use ferretto_proto::observable_events::Type as ObservableType;
use ferretto_proto::{
    ChangeTraceConfigRequest, CloneSessionRequest, FlushRequest, ObservableEvents, TraceConfig,
    TraceStats, TracingServiceCapabilities, TracingServiceState,
};

use super::error::CallError;
use crate::transport::LinkReply;

/// Something to be done with a [`Recording`](super::Recording).
#[derive(Debug)]
pub enum Call {
    /// Waits until the service answers calls.
    Connect,
    /// Subscribes to events of the session, in place of earlier subscriptions. Done when it is
    /// sent.
    Observe(Vec<ObservableType>),
    /// Sets the config of the next [`Start`](Self::Start). One that defers its start has the
    /// service create the session at once, if there is none. `file` is where the service writes the
    /// trace, if the config says so.
    SetUp {
        /// The config.
        config: Box<TraceConfig>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Creates a session and starts it, unless its config defers that. Done when it is sent.
    Enable {
        /// The config.
        config: Box<TraceConfig>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Starts the data sources that were set up. Done when all data sources record, or the session
    /// has ended. Data that an earlier session left in the buffers is given up.
    Start,
    /// Waits until all data sources record, or the session has ended.
    WaitForStart,
    /// Waits until the session ends.
    WaitForEnd,
    /// Flushes every producer.
    Flush(FlushRequest),
    /// Has the session end. Done when it has.
    Stop,
    /// Flushes, then has the session end. Done when it has. The time limit of the call is that of
    /// the flush.
    Finish {
        /// The reason of the flush.
        flags: FlushFlags,
        /// The time limit of all that follows the flush.
        stop_limit: Duration,
        /// The time after which an attached session that could not be flushed is taken to have
        /// ended before: an upstream service does not tell that.
        presumed_end: Duration,
    },
    /// Leaves the session to itself, under a key.
    Detach {
        /// The key.
        key: Vec<u8>,
        /// The time to wait for the reason if the service refuses. Upstream's answers Detach before
        /// it tells that it did not like the config.
        reason_patience: Duration,
    },
    /// Takes over the session that was detached with a key.
    Attach {
        /// The key.
        key: Vec<u8>,
    },
    /// Has the end of an attached session told. Done when it is sent.
    Watch,
    /// Clones another session; the clone is this recording's session then. `file` is for a session
    /// that writes into a file.
    Clone {
        /// The session to copy, and the way.
        request: Box<CloneSessionRequest>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Reads the session's buffers. One read at a time; others wait for their turn. The time limit
    /// starts again with each part.
    Read {
        /// The time limit of each part but the first.
        part_limit: Duration,
    },
    /// Gets the counters of the session.
    Stats,
    /// Asks for the service's capabilities.
    Capabilities,
    /// Asks for the producers, data sources and sessions that the service knows.
    ServiceState,
    /// Changes the config of the running session.
    ChangeConfig(Box<ChangeTraceConfigRequest>),
    /// Makes any other call of the port, with a descriptor if it takes one. Done with the first
    /// reply.
    Other(Box<Request>, Option<OwnedFd>),
}

/// The state that a call needs to make sense. One that makes none is answered with
/// [`CallError::NotRunning`] and not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the service decides.
    Nothing,
    /// A session that runs.
    Running,
    /// A session that has been created, attached to or copied, whether it has ended or not.
    Session,
}

/// The id of a call. Those of a recording are all different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    number: u64,
    kind: CallKind,
}

impl CallId {
    pub(super) fn new(number: u64, call: &Call) -> Self {
        Self {
            number,
            kind: CallKind::of(call),
        }
    }

    /// Returns the kind of call.
    pub fn kind(self) -> CallKind {
        self.kind
    }

    /// Returns the name of the method that is called, for messages.
    pub fn method(self) -> &'static str {
        self.kind.method()
    }
}

macro_rules! kinds {
    ($($kind:ident: $method:literal,)*) => {
        /// A [`Call`] without its arguments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // As those of `Call`.
        pub enum CallKind {
            $($kind,)*
            Other(&'static str),
        }

        impl CallKind {
            fn of(call: &Call) -> Self {
                match call {
                    $(Call::$kind { .. } => Self::$kind,)*
                    Call::Other(request, _) => Self::Other(request.method_name()),
                }
            }

            fn method(self) -> &'static str {
                match self {
                    $(Self::$kind => $method,)*
                    Self::Other(method) => method,
                }
            }
        }
    };
}

kinds! {
    Connect: "BindService",
    Observe: "ObserveEvents",
    SetUp: "EnableTracing",
    Enable: "EnableTracing",
    Start: "StartTracing",
    WaitForStart: "EnableTracing",
    WaitForEnd: "EnableTracing",
    Flush: "Flush",
    Stop: "DisableTracing",
    Finish: "DisableTracing",
    Detach: "Detach",
    Attach: "Attach",
    Watch: "EnableTracing",
    Clone: "CloneSession",
    Read: "ReadBuffers",
    Stats: "GetTraceStats",
    Capabilities: "QueryCapabilities",
    ServiceState: "QueryServiceState",
    ChangeConfig: "ChangeTraceConfig",
}

/// A flush that a program asks for, waiting for its answer as long as `limit`.
pub fn explicit_flush(limit: Duration) -> FlushRequest {
    // The service's own time limit has to come first for the answer to be a useful one.
    let timeout = limit.saturating_sub(limit / 10).as_millis();
    FlushRequest {
        timeout_ms: Some(u32::try_from(timeout).unwrap_or(u32::MAX).max(1)),
        flags: Some(FlushFlags::new(FlushInitiator::Library, FlushReason::Explicit).0),
        ..Default::default()
    }
}

/// The answer to a [`Call`].
#[derive(Debug)]
pub enum Answer {
    /// It is done, and there is nothing to say.
    Done,
    /// The config of the session that was attached to.
    Attached(Box<TraceConfig>),
    /// The session that was copied.
    Cloned(ClonedSession),
    /// The counters of the session.
    Stats(Box<TraceStats>),
    /// The capabilities of the service.
    Capabilities(Box<TracingServiceCapabilities>),
    /// The state of the service.
    ServiceState(Box<TracingServiceState>),
    /// The first reply to [`Call::Other`].
    Reply(Box<LinkReply<Port>>),
}

/// A session that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClonedSession {
    /// UUID of the copy, the more and the less significant half.
    pub uuid: (i64, i64),
    /// The trace is in the file that was passed along; there is nothing to read.
    pub in_file: bool,
}

/// Something that a [`Recording`](super::Recording) tells.
#[derive(Debug)]
pub enum Event {
    /// The service answers calls from now on.
    Connected,
    /// The service has no consumer port; it will never answer calls.
    NoConsumerPort,
    /// Something that was subscribed to.
    Observed(Box<ObservableEvents>),
    /// The session ended.
    Ended(SessionEnd),
    /// The flush of a [`Call::Finish`] failed. The session is stopped all the same.
    FinalFlushFailed,
    /// Packets of a [`Call::Read`], each an encoded TracePacket.
    Packets {
        /// The call.
        call: CallId,
        /// The packets.
        packets: Vec<Vec<u8>>,
    },
    /// A call is done, or failed.
    Answered {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Answer, CallError>,
    },
    /// The time limit of a call passed. A later answer is not told, except that of a read under
    /// way.
    TimedOut {
        /// The call.
        call: CallId,
        /// The call is a read under way: the rest of its packets and its answer will still come.
        goes_on: bool,
    },
    /// The connection is lost, and the session with it. Comes once; later calls fail.
    Disconnected(DisconnectReason),
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// It ran to its end.
    Complete,
    /// It failed, in the service's words.
    Failed(String),
    /// The service refused it without saying why.
    Rejected,
    /// The connection is lost.
    Lost,
}

impl SessionEnd {
    /// Returns why the session failed; `None` if it ran to its end.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Complete => None,
            Self::Failed(reason) => Some(reason),
            Self::Rejected | Self::Lost => {
                Some("the tracing service rejected the session, or was lost while it ran")
            }
        }
    }
}
