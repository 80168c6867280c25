//! The official SDK as a child process.
//!
//! The C++ core has process-wide singletons that cannot be reset or shut down, so each scenario has
//! its own process. The socket names are in the environment, as for any program that uses the SDK.

mod consumer;
mod producer;
mod script;

use ferretto_interop_driver::{Role, serve};

fn main() -> std::process::ExitCode {
    serve(match std::env::args().nth(1).as_deref() {
        Some("producer") => producer::Producer::start().map(|p| Box::new(p) as Box<dyn Role>),
        Some("consumer") => Ok(Box::new(consumer::Consumer::start())),
        _ => Err("usage: official producer|consumer".to_owned()),
    })
}
