//! Whole services, each a process of its own, under the same load.
//!
//! The producer and the consumer are ours for both. The figures are of the service's process:
//! processor time, time until it was done, memory.

mod load;
mod process;
mod scenarios;

pub use process::{SERVE, StartError, Who, serve};
pub use scenarios::{Measured, SCENARIOS, Scenario};
