//! Whole services, each in a separate process, under the same load.
//!
//! The producer and the consumer are ours in both cases. The figures are those of the service's
//! process: CPU time, elapsed time, memory.

mod load;
mod process;
mod scenarios;

pub use process::{SERVE, StartError, Who, serve};
pub use scenarios::{Measured, SCENARIOS, Scenario};
