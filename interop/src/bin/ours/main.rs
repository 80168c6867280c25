//! Ferretto as a child process, with the same commands as the official SDK's
//! driver, and our service besides.

mod consumer;
mod service;

use ferretto_interop::driver::serve;

fn main() -> std::process::ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("service") => service::run(),
        Some("consumer") => serve(Ok(Box::new(consumer::Consumer::default()))),
        _ => serve(Err("usage: ours service|consumer".to_owned())),
    }
}
