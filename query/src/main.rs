//! `ferretto-query`: SQL over traces.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use ferretto_query::engine::STACK;

fn main() -> ExitCode {
    // The stack that the system gives to this thread is too small for planning.
    let main = std::thread::Builder::new().stack_size(STACK);
    match main.spawn(cli::main).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // A panic said why.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ferretto-query: cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}
