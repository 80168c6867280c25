//! `ferretto-fleet`: SQL over traces.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use ferretto_fleet::engine::STACK;

fn main() -> ExitCode {
    // The stack of the main thread is too small for planning.
    let main = std::thread::Builder::new().stack_size(STACK);
    match main.spawn(cli::main).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has printed its message.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ferretto-fleet: cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}
