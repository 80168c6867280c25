//! Ferretto against the official SDK, in every position.
//!
//! The official SDK (crates.io `perfetto-sdk`, upstream's C++ core) is the
//! independent witness: what it writes has to arrive through our service, and
//! what ours writes has to be readable by it. Traces are decoded by a small
//! reader of their own, not by the crates they come from.
//!
//! - [`World`]: one scenario's cast: a service on private sockets, a producer
//!   and any number of consumers, each in a process of its own and each either
//!   ours or the official one.
//!   They all speak the line protocol of `ferretto-interop-driver`.
//!
//! This crate is for development only: it needs a C++17 compiler. It is no default member of the
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

pub use peer::{Peer, Programs, Sdk, Whose};
pub use world::{Cast, World};
