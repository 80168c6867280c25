//! Our service on the sockets in the environment.

use std::process::ExitCode;

use ferretto_host::{Host, HostOptions, NoticeSink};

/// Prints `ok` when it listens; runs until it is killed.
pub(crate) fn run() -> ExitCode {
    let options = match HostOptions::from_environment() {
        Ok(options) => HostOptions {
            notices: NoticeSink::new(|notice| eprintln!("ours: {notice}")),
            ..options
        },
        Err(error) => return failed(&error),
    };
    let host = match Host::bind(options) {
        Ok(host) => host,
        Err(error) => return failed(&error),
    };
    println!("ok");
    match host.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("ours: {error}");
    ExitCode::FAILURE
}
