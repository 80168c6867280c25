//! Ferretto as a child process, with the same commands as the official SDK's driver, and our
//! service.

mod consumer;
mod inside;
mod producer;
mod script;
mod service;
mod startup;

use ferretto_interop_driver::{Role, serve};

fn main() -> std::process::ExitCode {
    let role = std::env::args().nth(1);
    let file = std::env::args_os().nth(2).unwrap_or_default();
    match role.as_deref() {
        Some("inside") => inside::run(file.as_ref()),
        Some("service") => service::run(),
        Some("consumer") => serve(Ok(Box::new(consumer::Consumer::default()))),
        Some("producer") => {
            serve(producer::Producer::start().map(|p| Box::new(p) as Box<dyn Role>))
        }
        Some("startup") => serve(startup::Startup::start().map(|p| Box::new(p) as Box<dyn Role>)),
        _ => serve(Err(
            "usage: ours service|producer|consumer|startup|inside FILE".to_owned(),
        )),
    }
}
