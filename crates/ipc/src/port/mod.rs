//! The three services and their methods, with typed requests and replies.
//!
//! Each port is a module with the same contents: `SERVICE_NAME`; [`Method`]s with upstream's ids;
//! the enums `Request` and `Reply` with one variant per method, which contains the message; and a
//! type `Port` for code that is generic over ports.
//!
//! A method's id is its position in upstream's service definition. A host announces its table of
//! methods, in which clients look up methods by name. So either side may be older or newer.

use std::fmt;

/// A method of one port.
pub trait Method: Copy + Eq + std::hash::Hash + fmt::Debug + Send + 'static {
    /// The methods of the port, in the order of their ids, which start at 1.
    const ALL: &'static [Self];

    /// Returns the id that a host of this crate announces.
    fn id(self) -> u32;

    /// Returns the name by which clients look up the method.
    fn name(self) -> &'static str;

    /// Returns true if a request may have several replies.
    fn is_stream(self) -> bool;

    /// Returns the method with this id in a host of this crate.
    fn from_id(id: u32) -> Option<Self> {
        Self::ALL
            .get(usize::try_from(id).ok()?.checked_sub(1)?)
            .copied()
    }

    /// Returns the method with this name.
    fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|method| method.name().as_bytes() == name)
    }
}

/// A request or reply of one port.
pub trait PortMessage: Sized + fmt::Debug + Send + 'static {
    /// The methods of the port.
    type Method: Method;

    /// Returns the method of the message.
    fn method(&self) -> Self::Method;

    /// Returns the size of the encoded message in bytes.
    fn encoded_len(&self) -> usize;

    /// Appends the encoded message.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the message of `method`.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not such a message.
    fn decode(method: Self::Method, bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// A service, as a type.
pub trait Port: fmt::Debug + Send + 'static {
    /// The name by which the service is bound.
    const SERVICE_NAME: &'static str;
    /// Its methods.
    type Method: Method;
    /// The requests of clients.
    type Request: PortMessage<Method = Self::Method>;
    /// The replies of hosts.
    type Reply: PortMessage<Method = Self::Method>;
}

/// The error of a malformed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The name of the method.
    pub method: &'static str,
    /// The reason.
    pub reason: String,
}

ferretto_wire::error_text! {
    DecodeError {
        Self { method, reason } => "malformed {method} message: {reason}",
    }
}

/// A service of a listening address, or bound by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// The service for processes that record data.
    Producer,
    /// The service for programs that configure sessions and read traces.
    Consumer,
    /// The service for relays of other machines.
    Relay,
}

impl PortKind {
    /// Returns the name by which the service is bound.
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Producer => producer::SERVICE_NAME,
            Self::Consumer => consumer::SERVICE_NAME,
            Self::Relay => relay::SERVICE_NAME,
        }
    }

    /// Returns the ids and names of the methods, in order.
    pub fn methods(self) -> Vec<(u32, &'static str)> {
        fn table<M: Method>() -> Vec<(u32, &'static str)> {
            M::ALL
                .iter()
                .map(|method| (method.id(), method.name()))
                .collect()
        }
        match self {
            Self::Producer => table::<producer::Method>(),
            Self::Consumer => table::<consumer::Method>(),
            Self::Relay => table::<relay::Method>(),
        }
    }
}

/// Defines the contents of a port module from its method table. The order of
/// the methods is the order of their ids.
macro_rules! define_port {
    (
        $service:literal {
            $(
                $(#[doc = $doc:literal])*
                $method:ident($request:ident) -> $reply:ident $(as $stream:ident)?;
            )+
        }
    ) => {
        use ferretto_proto::{Message as _, $($request, $reply,)+};

        use super::{DecodeError, Method as _, PortMessage};

        /// The name by which the service is bound.
        pub const SERVICE_NAME: &str = $service;

        /// The methods; the discriminants are the ids on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[doc = $doc])* $method,)+
        }

        impl super::Method for Method {
            const ALL: &'static [Self] = &[$(Self::$method,)+];

            fn id(self) -> u32 {
                self as u32 + 1
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$method => stringify!($method),)+
                }
            }

            fn is_stream(self) -> bool {
                match self {
                    $(Self::$method => define_port!(@stream $($stream)?),)+
                }
            }
        }

        define_port!(@message
            "What a client asks for.", Request { $($(#[doc = $doc])* $method($request),)+ });
        define_port!(@message
            "What a host answers.", Reply { $($(#[doc = $doc])* $method($reply),)+ });

        /// This port as a type.
        #[derive(Clone, Copy, Debug)]
        pub struct Port;

        impl super::Port for Port {
            const SERVICE_NAME: &'static str = SERVICE_NAME;
            type Method = Method;
            type Request = Request;
            type Reply = Reply;
        }
    };

    (@stream) => { false };
    (@stream stream) => { true };

    (@message $about:literal, $name:ident { $($(#[doc = $doc:literal])* $method:ident($message:ident),)+ }) => {
        #[doc = $about]
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "moved a few times, stored rarely")]
        pub enum $name {
            $($(#[doc = $doc])* $method($message),)+
        }

        impl $name {
            /// Returns the method of the message.
            pub fn method(&self) -> Method {
                match self {
                    $(Self::$method(_) => Method::$method,)+
                }
            }

            /// Returns the name of the message's method.
            pub fn method_name(&self) -> &'static str {
                self.method().name()
            }

            /// Returns the size of the encoded message in bytes.
            pub fn encoded_len(&self) -> usize {
                match self {
                    $(Self::$method(message) => message.encoded_len() as usize,)+
                }
            }

            /// Appends the encoded message.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$method(message) => message.encode(out),)+
                }
            }

            /// Decodes the message of `method`.
            ///
            /// # Errors
            ///
            /// Fails if the bytes are not such a message.
            pub fn decode(method: Method, bytes: &[u8]) -> Result<Self, DecodeError> {
                let fail = |error: ferretto_proto::DecodeError| DecodeError {
                    method: method.name(),
                    reason: error.to_string(),
                };
                match method {
                    $(Method::$method => {
                        $message::decode_from_slice(bytes)
                            .map(Self::$method)
                            .map_err(fail)
                    })+
                }
            }
        }

        impl PortMessage for $name {
            type Method = Method;

            fn method(&self) -> Method {
                Self::method(self)
            }

            fn encoded_len(&self) -> usize {
                Self::encoded_len(self)
            }

            fn encode(&self, out: &mut Vec<u8>) {
                Self::encode(self, out);
            }

            fn decode(method: Method, bytes: &[u8]) -> Result<Self, DecodeError> {
                Self::decode(method, bytes)
            }
        }
    };
}
// After the macro, which is visible only from there on.
pub mod commit;
pub mod consumer;
pub mod producer;
pub mod relay;
pub mod state;
