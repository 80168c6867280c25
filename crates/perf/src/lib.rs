//! The callstack profiler.

pub mod config;
pub mod cpus;
pub mod event;
pub mod record;
pub mod ring;
