//! Ferretto against the official SDK, in every position.
//!
//! The official SDK (crates.io `perfetto-sdk`, upstream's C++ core) is the
//! independent witness: what it writes has to arrive through our service, and
//! what ours writes has to be readable by it. Traces are decoded with
//! `perfetto_protos`, generated from upstream's own schema, not with our own
//! messages.
//!
//! - [`Service`]: a tracing service on private sockets. Normally ours; with
//!   `FERRETTO_INTEROP_TRACED=PROGRAM` in the environment that program, so
//!   that the same scenarios can be checked against another implementation.
//! - [`Official`]: the official SDK in a process of its own, as producer or as
//!   consumer.
//!
//! This crate is for development only: it needs a C++17 compiler and spends
//! minutes in it. It is no default member of the workspace.

#![forbid(unsafe_code)]

pub mod config;
mod official;
mod service;
pub mod trace;

pub use official::Official;
pub use service::{Service, Sockets};
