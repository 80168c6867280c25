//! Ferretto against the official SDK, in every position.
//!
//! The official SDK (crates.io `perfetto-sdk`, upstream's C++ core) is the independent reference:
//! its data must arrive through our service, and the official consumer must read our data. Traces
//! are decoded by a small independent reader, not by our crates.
//!
//! - [`World`]: the programs of a scenario: a service on private sockets, a producer and any number
//!   of consumers, each in its own process, and each either ours or the official one. They all use
//!   the line protocol of `ferretto-interop-driver`.
//!
//! This crate is for development only and needs a C++17 compiler. It is not a default member of the
//! workspace.

#![forbid(unsafe_code)]

pub mod config;
pub mod document;
pub mod importer;
mod old_service;
mod on_ours;
mod peer;
pub mod trace;
pub mod wire;
mod world;

pub use peer::{Peer, Programs, Sdk, Side};
pub use world::{Cast, World};
