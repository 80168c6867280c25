//! Parts that everyone who drives a [`Service`](crate::Service) needs: clocks, output files, an
//! alarm, facts about the machine.
//!
//! The service itself stays without any of it. Here are the parts that drivers have in common,
//! those with sockets and those inside a program.

mod alarm;
pub mod clocks;
mod files;
mod place;
mod system;

pub use alarm::Alarm;
pub use files::Files;
pub use system::{service_options, system_info};
