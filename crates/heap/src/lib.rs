//! The client side of a heap profiler.
//!
//! The profiler (`heapprofd`, or `ferretto record --heap`) is another process. A program contains a
//! *client*: [`Allocator`], or the preload library, which is built from the same source. The client
//! samples allocations at random, with the same probability for each byte. It writes them with
//! registers and stack into memory shared with the profiler ([`ring`]), and remembers their
//! addresses to write only the frees of sampled allocations. The profiler unwinds the callstacks.
//!
//! ```text
//!  program                                                  profiler
//! ┌───────────────────────┐ session socket: config, ring   ┌─────────────┐
//! │ malloc ─► sampler ────┼──────────────────────────────► │ sessions    │
//! │             │ picked  │                                │             │
//! │ free ─► set ▼         │ ring: allocations, frees       │ callstacks, │
//! │          ring writer ─┼──────────────────────────────► │ books       │
//! └──────────▲────────────┘                                └──────┬──────┘
//!            └────────── control page: is there a session? ◄──────┘
//! ```
//!
//! - A client that is not recorded has no thread, no socket and no memory but one page that it
//!   shares with all other clients and the profiler, who writes there that a session begins
//!   ([`control`]). The next allocation of a program sees that and connects.
//! - Handshake, ring and records ([`wire`]) are those of upstream's profiler, which a client talks
//!   to like to ours. Ours says in the ring that it is ours, and then frees of unpicked memory are
//!   not told, stacks are cut, and a record that finds no room is counted and does not end the
//!   session.
//! - The client runs inside of allocators: it never allocates, takes no lock that it does not give
//!   up on, saves `errno`, and has initial-exec thread-local memory without destructors.
//!
//! This crate has no dependencies and needs only `core`. The feature `profiler` adds the profiler's
//! side of ring and control page.

#![no_std]
#![cfg_attr(loom, allow(dead_code))]

#[cfg(any(test, feature = "profiler"))]
extern crate std;

#[cfg(not(loom))]
mod allocator;
#[cfg(not(loom))]
pub mod client;
pub mod control;
// The part of the client that has a model.
#[cfg(all(loom, test))]
#[path = "client/gate.rs"]
mod gate;
pub mod ring;
pub mod sys;
pub mod wire;

#[cfg(not(loom))]
pub use allocator::Allocator;

/// The preload library: the bytes of `libferretto_heap.so`.
#[cfg(feature = "preload")]
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libferretto_heap.so"));

/// The environment variable with the path of the profiler's socket, which replaces
/// [`DEFAULT_SOCKET`](control::DEFAULT_SOCKET).
pub const SOCKET_VARIABLE: &str = "FERRETTO_HEAP_SOCK_NAME";
