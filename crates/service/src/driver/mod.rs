//! Parts that all drivers of a [`Service`](crate::Service) need: clocks, output files, an alarm,
//! facts about the machine.
//!
//! The service itself uses none of them. Drivers with sockets and drivers inside a program share
//! these parts.

mod alarm;
pub mod clocks;
mod files;
mod output_file;
mod system;

pub use alarm::Alarm;
pub use files::Files;
pub use system::{service_options, system_info};
