//! The tracing service as a deterministic state machine, with its trace buffers.
//!
//! Producers register data sources, and consumers open sessions. The service starts the data
//! sources of a session, copies committed chunks from shared memory into the session's buffers, and
//! delivers the packets to the consumer or to a file. It adds the identity of the writers, and
//! packets of its own: clocks, the config, statistics and lifecycle events.
//!
//! # Guarantees
//!
//! * The service is a value without sockets, threads, clocks, files or randomness (the module
//!   `driver`, a feature, contains those parts that drivers need). Its inputs are [`Event`]s with
//!   the time; its outputs are [`Command`]s. The same events give the same commands, byte for byte.
//! * No input makes it panic, block or use unbounded memory: neither messages of clients, nor
//!   changes of a producer's shared memory during a read.
//! * A client that stops reading costs the memory of its queue and slows down no other client.
//! * Lost data is counted, and the packet after a gap is marked.
//!
//! # Main types
//!
//! [`Service`] is the state machine; [`Event`] and [`Command`] are its inputs and outputs. The
//! driver calls [`Service::handle`] for each event, then [`Service::poll_command`] until it returns
//! `None`, and [`Service::handle_timeout`] at the time that [`Service::poll_timeout`] returns.
//!
//! # Features
//!
//! All features that a config can use are on by default. A program that embeds the service can turn
//! off `deflate`, `priority`, `protovm` and `regex` to avoid their dependencies. The service
//! refuses a config that needs a missing feature, with a message that names the feature.
#![forbid(unsafe_code)]

pub mod buffer;
mod clocks;
mod command;
mod compress;
mod consumer;
mod consumers;
mod context;
#[cfg(feature = "driver")]
pub mod driver;
mod event;
pub mod filter;
mod ids;
mod limits;
mod matching;
mod options;
pub mod packet;
mod pool;
mod priority;
mod producer;
mod producers;
mod quota;
mod registry;
mod relay;
mod rng;
mod scrapes;
mod service;
mod session;
mod sessions;
mod sink;
mod snapshot;
mod timers;

pub use clocks::Clocks;
pub use command::{Command, OutputPath, Waiting};
pub use event::{ClientId, Event, FileId, Peer};
pub use options::{DEFAULT_VERSION, ExtensionDescriptor, ServiceOptions};
pub use priority::Priority;
pub use quota::Quotas;
pub use service::{Inventory, Service};
