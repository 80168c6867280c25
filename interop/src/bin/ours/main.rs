//! Ferretto as a child process, with the same commands as the official SDK's
//! driver, and our service besides.

mod consumer;
mod producer;
mod script;
mod service;

use ferretto_interop::driver::{Role, serve};

fn main() -> std::process::ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("service") => service::run(),
        Some("consumer") => serve(Ok(Box::new(consumer::Consumer::default()))),
        Some("producer") => {
            serve(producer::Producer::start().map(|p| Box::new(p) as Box<dyn Role>))
        }
        _ => serve(Err("usage: ours service|producer|consumer".to_owned())),
    }
}
