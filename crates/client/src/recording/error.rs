//! Errors of calls.

use std::error::Error;
use std::fmt;

use ferretto_ipc::address::AddressError;
use ferretto_ipc::client::InvokeError;
use ferretto_ipc::socket::ConnectError;

use super::packets::PacketTooLarge;
use crate::transport::ConnectFailure;

/// The reason why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The configured address is invalid.
    Address(AddressError),
    /// There is no service at the address.
    Connect(ConnectError),
    /// The system or the transport failed.
    System(std::io::Error),
    /// The listener has no consumer port. It is probably a producer socket.
    NoConsumerPort,
    /// The service does not support the method.
    Unsupported {
        /// The method.
        method: &'static str,
    },
    /// The request does not fit a frame, which holds 128 KiB.
    TooLarge {
        /// The method.
        method: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// The service rejected the call.
    Rejected {
        /// The method.
        method: &'static str,
    },
    /// The service refused the call with a reason.
    Refused {
        /// The method.
        method: &'static str,
        /// The service's message.
        reason: String,
    },
    /// The time limit passed. A later reply is ignored.
    TimedOut {
        /// The method.
        method: &'static str,
    },
    /// The connection is lost.
    Disconnected,
    /// The call needs a session.
    NotRunning {
        /// The method.
        method: &'static str,
    },
    /// The session has been started already.
    AlreadyStarted,
    /// There is no config to start.
    NotSetUp,
    /// The session failed.
    Failed {
        /// The service's message.
        reason: String,
    },
    /// The trace has a packet that is too large.
    Packet(PacketTooLarge),
}

ferretto_wire::error_text! {
    CallError {
        Self::Address(error) => "invalid address of the tracing service: {error}",
        Self::Connect(error) => "{error}",
        Self::System(error) => "cannot connect to the tracing service: {error}",
        Self::NoConsumerPort => "the tracing service does not accept consumers on this socket",
        Self::Unsupported { method } => "the tracing service does not support {method}",
        Self::TooLarge { method, size } => "the {method} request of {size} bytes is too large",
        Self::Rejected { method } => "the tracing service rejected {method}",
        Self::Refused { method, reason } => "the tracing service refused {method}: {reason}",
        Self::TimedOut { method } => "the tracing service did not answer {method} in time",
        Self::Disconnected => "the connection to the tracing service is lost",
        Self::NotRunning { method } => "{method} needs a running session",
        Self::AlreadyStarted => "the session has been started already",
        Self::NotSetUp => "the session has no config",
        Self::Failed { reason } => "the session failed: {reason}",
        Self::Packet(error) => "{error}",
    }
    source {
        Self::Address(error) => error,
        Self::Connect(error) => error,
        Self::System(error) => error,
        Self::Packet(error) => error,
    }
    from {
        Address(AddressError),
        Connect(ConnectError),
        System(std::io::Error),
        Packet(PacketTooLarge),
    }
}

impl From<ConnectFailure> for CallError {
    fn from(failure: ConnectFailure) -> Self {
        match failure {
            ConnectFailure::Address(error) => Self::Address(error),
            ConnectFailure::Connect(error) => Self::Connect(error),
            ConnectFailure::System(error) => Self::System(error),
            ConnectFailure::Untrusted(error) => Self::System(std::io::Error::new(
                std::io::ErrorKind::PermissionDenied,
                error.to_string(),
            )),
        }
    }
}

impl From<InvokeError> for CallError {
    fn from(error: InvokeError) -> Self {
        match error {
            InvokeError::NotBound => Self::NoConsumerPort,
            InvokeError::Disconnected => Self::Disconnected,
            InvokeError::UnknownMethod(method) => Self::Unsupported { method },
            InvokeError::TooLarge { method, size } => Self::TooLarge { method, size },
        }
    }
}

/// The reason why a trace was not read to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError<E> {
    /// The call failed.
    Call(CallError),
    /// The trace has a packet that is too large.
    Packet(PacketTooLarge),
    /// The receiver of the packets failed.
    Receiver(E),
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Packet(error) => error.fmt(f),
            Self::Receiver(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for ReadError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Call(error) => error.source(),
            Self::Packet(_) | Self::Receiver(_) => None,
        }
    }
}

impl<E> From<CallError> for ReadError<E> {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Packet(error) => Self::Packet(error),
            error => Self::Call(error),
        }
    }
}
