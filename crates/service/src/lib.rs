//! The tracing service as a deterministic state machine, with its trace buffers.
//!
//! Producers offer data sources, consumers ask for sessions; the service starts data sources of
//! producers, copies committed chunks out of shared memory into the session's buffers, and hands
//! the packets to the consumer or to a file, adding their writers' identity and packets of its own:
//! clocks, the config, statistics, lifecycle events.
//!
//! # What it promises
//!
//! * It is a value, not a program: no sockets, threads, clocks, files or randomness (those that
//!   drivers need are in the module `driver`, a feature). Everything comes in as an [`Event`] with
//!   the time beside it and goes out as a [`Command`]. The same events give the same commands, to
//!   the byte.
//! * No input makes it panic or block, nor use memory without bound: neither messages of a client
//!   nor changes of a producer's shared memory while it is read.
//! * A client that stops reading costs the memory of its queue, and slows nobody else.
//! * Data that is lost is counted, and the packet after the gap says so.
//!
//! # Types to know
//!
//! [`Service`] is the state machine; [`Event`] and [`Command`] are its two sides. Its driver calls
//! [`Service::handle`] for each event, then [`Service::poll_command`] until it is empty, and
//! [`Service::handle_timeout`] at the time [`Service::poll_timeout`] names.
//!
//! # Features
//!
//! All features that configs may ask for are there by default; a program that embeds the service
//! may do without `deflate`, `priority`, `protovm` and `regex`, and so without their dependencies.
//! A config that asks for a missing feature is refused, with a sentence that names the feature.
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
mod service;
mod session;
mod sessions;
mod sink;
mod snapshot;
mod timers;

pub use clocks::Clocks;
pub use command::{Command, FilePlace, Waiting};
pub use event::{ClientId, Event, FileId, Peer};
pub use options::{DEFAULT_VERSION, ExtensionDescriptor, ServiceOptions};
pub use priority::Priority;
pub use quota::Quotas;
pub use service::{Inventory, Service};
