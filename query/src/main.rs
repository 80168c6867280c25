//! `ferretto-query`: SQL over one trace.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use ferretto_query::STACK;

fn main() -> ExitCode {
    // Functions may call each other to a depth that the stack of the main thread does not have.
    let main = std::thread::Builder::new().stack_size(STACK);
    match main.spawn(cli::main).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has printed its message.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ferretto-query: cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}
