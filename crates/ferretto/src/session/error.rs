//! Errors of sessions.

use std::fmt;
use std::io;

use ferretto_client::CallError;

use crate::InitError;

/// The reason why a call of a [`Session`](super::Session) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// The process cannot create a thread or descriptor.
    System(io::Error),
    /// The connection to the service is lost, could not be established, or was not allowed. The
    /// session has ended.
    Disconnected {
        /// The cause.
        reason: String,
    },
    /// The recording could not be started, or failed while it ran.
    Failed {
        /// The service's message.
        reason: String,
    },
    /// The service refused the request.
    Refused {
        /// The name of the call.
        call: &'static str,
        /// The service's message; empty if it gave none.
        reason: String,
    },
    /// The service is too old for the request.
    Unsupported {
        /// The name of the call.
        call: &'static str,
    },
    /// The request exceeds the limit of a message to the service, 128 KiB.
    TooLarge {
        /// The name of the call.
        call: &'static str,
        /// The size of the request in bytes.
        size: usize,
    },
    /// The time limit passed.
    TimedOut {
        /// The name of the call.
        call: &'static str,
    },
    /// The in-process service does not record this process, which was not
    /// [initialised](crate::Options::init) with [`Backends::IN_PROCESS`](crate::Backends).
    NotInitialised,
    /// The session has no config.
    NotSetUp,
    /// The recording has already been started.
    AlreadyStarted,
    /// The recording has not been started, or has ended.
    NotRunning {
        /// The name of the call.
        call: &'static str,
    },
    /// The config is not an encoded `TraceConfig`.
    BadConfig,
    /// The trace contains a packet of more than 256 MiB.
    PacketTooLarge,
    /// Writing the trace failed.
    Write(io::Error),
}

impl SessionError {
    /// Returns the error after the session's thread has ended.
    pub(crate) fn over() -> Self {
        Self::Disconnected {
            reason: "the session is over".to_owned(),
        }
    }

    /// Returns the error for a session of the parent process.
    pub(super) fn inherited() -> Self {
        Self::Disconnected {
            reason: "the session belongs to the parent of this process".to_owned(),
        }
    }

    /// Converts the failure of a call.
    pub(super) fn from_call(call: &'static str, error: CallError) -> Self {
        match error {
            CallError::Unsupported { .. } => Self::Unsupported { call },
            CallError::TooLarge { size, .. } => Self::TooLarge { call, size },
            CallError::Rejected { .. } => Self::Refused {
                call,
                reason: String::new(),
            },
            CallError::Refused { reason, .. } => Self::Refused { call, reason },
            CallError::TimedOut { .. } => Self::TimedOut { call },
            CallError::NotRunning { .. } => Self::NotRunning { call },
            CallError::AlreadyStarted => Self::AlreadyStarted,
            CallError::NotSetUp => Self::NotSetUp,
            CallError::Failed { reason } => Self::Failed { reason },
            CallError::Packet(_) => Self::PacketTooLarge,
            error => Self::Disconnected {
                reason: error.to_string(),
            },
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "cannot start a session: {error}"),
            Self::Disconnected { reason } => {
                write!(f, "not connected to the tracing service: {reason}")
            }
            Self::Failed { reason } => write!(f, "the recording failed: {reason}"),
            Self::Refused { call, reason } if reason.is_empty() => {
                write!(f, "the tracing service refused to {call}")
            }
            Self::Refused { call, reason } => {
                write!(f, "the tracing service refused to {call}: {reason}")
            }
            Self::Unsupported { call } => {
                write!(f, "the tracing service is too old to {call}")
            }
            Self::TooLarge { call, size } => {
                write!(f, "the request to {call} is too large: {size} bytes")
            }
            Self::TimedOut { call } => write!(f, "no answer in time to the request to {call}"),
            Self::NotInitialised => f.write_str(
                "this process is not recorded by its own service: call \
                 Options::new().backends(Backends::IN_PROCESS).init() first",
            ),
            Self::NotSetUp => f.write_str("the session has no configuration: set it up first"),
            Self::AlreadyStarted => f.write_str("the recording has been started already"),
            Self::NotRunning { call } => {
                write!(f, "the recording does not run, which is needed to {call}")
            }
            Self::BadConfig => f.write_str("the configuration is not an encoded TraceConfig"),
            Self::PacketTooLarge => f.write_str("the trace holds a packet of more than 256 MiB"),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl From<InitError> for SessionError {
    fn from(error: InitError) -> Self {
        match error {
            InitError::System(error) => Self::System(error),
            error => Self::Disconnected {
                reason: error.to_string(),
            },
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) | Self::Write(error) => Some(error),
            _ => None,
        }
    }
}
