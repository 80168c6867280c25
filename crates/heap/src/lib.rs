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
//! │             │ sampled │                                │             │
//! │ free ─► set ▼         │ ring: allocations, frees       │ callstacks, │
//! │          ring writer ─┼──────────────────────────────► │ books       │
//! └──────────▲────────────┘                                └──────┬──────┘
//!            └────────── control page: is there a session? ◄──────┘
//! ```
//!
//! - Without a session, a client has no thread, no socket and no memory except one page shared by
//!   all clients and the profiler ([`control`]). The profiler announces a session there, and the
//!   next allocation of a program connects.
//! - Handshake, ring and records ([`wire`]) are those of upstream's profiler, so a client works
//!   with either profiler. Ours marks the session in the ring as an *extended* one: frees of
//!   unsampled memory are not written, stacks are truncated, and a record that does not fit is
//!   counted as lost and does not end the session.
//! - The client runs inside of allocators: it never allocates, all its locks have timeouts, it
//!   saves `errno`, and its thread-local memory is initial-exec and has no destructors.
//!
//! This crate has no dependencies and needs only `core`. The feature `profiler` adds the profiler's
//! side of ring and control page.

#![no_std]
#![cfg_attr(loom, allow(dead_code))]

#[cfg(any(test, feature = "profiler"))]
extern crate std;

// On other machines `sys` refuses to compile, and its sentence is to be the only error.
#[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod allocator;
#[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod client;
pub mod control;
// The only part of the client with a loom model.
#[cfg(all(loom, test))]
#[path = "client/gate.rs"]
mod gate;
pub mod ring;
pub mod sys;
pub mod wire;

#[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use allocator::Allocator;

/// The preload library: the bytes of `libferretto_heap.so`.
#[cfg(feature = "preload")]
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libferretto_heap.so"));

/// The environment variable with the path of the profiler's socket, which replaces
/// [`DEFAULT_SOCKET`](control::DEFAULT_SOCKET).
pub const SOCKET_VARIABLE: &str = "FERRETTO_HEAP_SOCK_NAME";
