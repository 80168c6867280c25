//! The calls of a recording, their results, and other events.

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

/// A call of a [`Recording`](super::Recording).
#[derive(Debug)]
pub enum Call {
    /// Waits until the service is connected.
    Connect,
    /// Subscribes to events of the session, and replaces earlier subscriptions. Done when sent.
    Observe(Vec<ObservableType>),
    /// Sets the config of the next [`Start`](Self::Start). If the config defers the start and there
    /// is no session, the service creates one at once. The service writes the trace to `file` if
    /// the config requests it.
    SetUp {
        /// The config.
        config: Box<TraceConfig>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Creates a session and starts it, unless its config defers the start. Done when sent.
    Enable {
        /// The config.
        config: Box<TraceConfig>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Starts the data sources that were set up. Done when all data sources record, or the session
    /// has ended. Discards data in the buffers of an earlier session.
    Start,
    /// Waits until all data sources record, or the session has ended.
    WaitForStart,
    /// Waits until the session ends.
    WaitForEnd,
    /// Flushes every producer.
    Flush(FlushRequest),
    /// Stops the session. Done when it has ended.
    Stop,
    /// Flushes, then stops the session. Done when it has ended. The time limit of the call applies
    /// to the flush.
    Finish {
        /// The reason of the flush.
        flags: FlushFlags,
        /// The time limit after the flush.
        stop_limit: Duration,
        /// The time after which an attached session that could not be flushed counts as ended,
        /// since upstream's service does not report that.
        presumed_end: Duration,
    },
    /// Detaches the session under a key.
    Detach {
        /// The key.
        key: Vec<u8>,
        /// The time to wait for the reason of a refusal. Upstream's service replies to Detach
        /// before it reports an invalid config.
        reason_patience: Duration,
    },
    /// Attaches to the session that was detached with a key.
    Attach {
        /// The key.
        key: Vec<u8>,
    },
    /// Subscribes to the end of an attached session. Done when sent.
    Watch,
    /// Clones another session. The clone becomes this recording's session. `file` is for a session
    /// that writes into a file.
    Clone {
        /// The session to clone, and the options.
        request: Box<CloneSessionRequest>,
        /// The file for the trace.
        file: Option<OwnedFd>,
    },
    /// Reads the session's buffers. Reads run one at a time. The time limit restarts with each
    /// part.
    Read {
        /// The time limit of each part but the first.
        part_limit: Duration,
    },
    /// Gets the counters of the session.
    Stats,
    /// Queries the service's capabilities.
    Capabilities,
    /// Queries the producers, data sources and sessions of the service.
    ServiceState,
    /// Changes the config of the running session.
    ChangeConfig(Box<ChangeTraceConfigRequest>),
    /// Makes any other call of the port, with a descriptor if it takes one. Done with the first
    /// reply.
    Other(Box<Request>, Option<OwnedFd>),
}

/// The state that a call requires. In another state it fails with [`CallError::NotRunning`] without
/// being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the service decides.
    Nothing,
    /// A running session.
    Running,
    /// A session that was created, attached to or cloned, even if it has ended.
    Session,
}

/// The id of a call, unique within a recording.
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

    /// Returns the name of the called method, for messages.
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

/// Returns the request of a flush by a program, with the time limit of its reply.
pub fn explicit_flush(limit: Duration) -> FlushRequest {
    // The service's own time limit must be shorter for a useful reply.
    let timeout = limit.saturating_sub(limit / 10).as_millis();
    FlushRequest {
        timeout_ms: Some(u32::try_from(timeout).unwrap_or(u32::MAX).max(1)),
        flags: Some(FlushFlags::new(FlushInitiator::Library, FlushReason::Explicit).0),
        ..Default::default()
    }
}

/// The result of a [`Call`].
#[derive(Debug)]
pub enum Answer {
    /// The call is done and has no result.
    Done,
    /// The config of the attached session.
    Attached(Box<TraceConfig>),
    /// The cloned session.
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

/// A cloned session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClonedSession {
    /// The UUID of the clone, the more and the less significant half.
    pub uuid: (i64, i64),
    /// Set if the trace is in the passed file, so there is nothing to read.
    pub in_file: bool,
}

/// An event of a [`Recording`](super::Recording).
#[derive(Debug)]
pub enum Event {
    /// The service is connected.
    Connected,
    /// The service has no consumer port, so all calls fail.
    NoConsumerPort,
    /// An event that was subscribed to.
    Observed(Box<ObservableEvents>),
    /// The session ended.
    Ended(SessionEnd),
    /// The flush of a [`Call::Finish`] failed. The session is still stopped.
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
    /// The time limit of a call passed. A later reply is dropped, except that of a running read.
    TimedOut {
        /// The call.
        call: CallId,
        /// Set if the call is a running read, whose remaining packets and result will still come.
        goes_on: bool,
    },
    /// The connection is lost, and the session with it. Comes once; later calls fail.
    Disconnected(DisconnectReason),
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The session ran to its end.
    Complete,
    /// The session failed, with the service's message.
    Failed(String),
    /// The service refused the session without a reason.
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
