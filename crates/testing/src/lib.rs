//! Helpers of the tests of all crates: reproducible random numbers, tests in processes of their
//! own, services, producers and relays to test with, attacks on servers, the contents of traces as
//! importers see them, and faults of the machine.
//! Unpublished.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::new_without_default,
    reason = "helpers of tests"
)]

pub mod attack;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "content")]
pub mod content;
#[cfg(feature = "faults")]
pub mod faults;
mod own_process;
mod random;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "sdk")]
pub mod sdk;

pub use own_process::run_in_own_process;
pub use random::Random;
