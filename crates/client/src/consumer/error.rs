//! What can go wrong with a call.

use ferretto_ipc::address::AddressError;
use ferretto_ipc::client::InvokeError;
use ferretto_ipc::socket::ConnectError;

use crate::packets::PacketTooLarge;
use crate::transport::ConnectFailure;

/// Why a call brought no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The configured address is not one.
    #[error("invalid address of the tracing service: {0}")]
    Address(#[from] AddressError),
    /// There is no service at the address.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The system, or the transport, refused.
    #[error("cannot connect to the tracing service: {0}")]
    System(#[from] std::io::Error),
    /// What listens there has no consumer port: a producer socket, most likely.
    #[error("the tracing service does not accept consumers on this socket")]
    NoConsumerPort,
    /// The service is older than the method.
    #[error("the tracing service does not support {method}")]
    Unsupported {
        /// The method.
        method: &'static str,
    },
    /// The request does not fit a frame, which holds 128 KiB.
    #[error("the {method} request of {size} bytes is too large")]
    TooLarge {
        /// The method.
        method: &'static str,
        /// Its size in bytes.
        size: usize,
    },
    /// The service said no.
    #[error("the tracing service rejected {method}")]
    Rejected {
        /// The method.
        method: &'static str,
    },
    /// The service said no, and why.
    #[error("the tracing service refused {method}: {reason}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The service's words.
        reason: String,
    },
    /// The time limit passed. An answer that comes later is ignored.
    #[error("the tracing service did not answer {method} in time")]
    TimedOut {
        /// The method.
        method: &'static str,
    },
    /// The connection is lost.
    #[error("the connection to the tracing service is lost")]
    Disconnected,
}

impl From<ConnectFailure> for CallError {
    fn from(failure: ConnectFailure) -> Self {
        match failure {
            ConnectFailure::Address(error) => Self::Address(error),
            ConnectFailure::Connect(error) => Self::Connect(error),
            ConnectFailure::System(error) => Self::System(error),
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

/// Why a trace was not read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError<E> {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The trace holds what no trace may.
    #[error(transparent)]
    Packet(#[from] PacketTooLarge),
    /// The receiver of the packets failed.
    #[error("{0}")]
    Receiver(E),
}
