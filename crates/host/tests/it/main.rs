//! Integration tests, in one program.

mod closing;
mod common;
mod configs;
mod conformance;
mod daemon;
mod memory;
mod priority;
mod relay;
mod replay;
mod robustness;
mod sessions;
mod sockets;
mod watchdog;
mod web_ui;
