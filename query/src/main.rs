//! `ferretto-query`: SQL over traces.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
