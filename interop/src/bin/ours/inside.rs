//! A program that records itself: the script of a producer, with an in-process service.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ferretto::Backends;
use ferretto::in_process::InProcess;
use ferretto::session::{Backend, Session};
use ferretto_interop::config::config;
use ferretto_interop_driver::PATIENCE;

use crate::script;

/// Records everything into a file.
pub(crate) fn run(file: &Path) -> ExitCode {
    match record(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn record(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let options = ferretto::Options::new()
        .backends(Backends::CUSTOM)
        .custom(Arc::new(InProcess::shared()));
    options.wait(PATIENCE).init()?;
    let session = Session::open(Backend::Custom(Arc::new(InProcess::shared())))?;
    session.set_up(config(4096));
    session.start(PATIENCE).wait()?;
    script::run();
    script::more();
    session.stop(PATIENCE).wait()?;
    std::fs::write(file, session.read(PATIENCE).wait()?)?;
    Ok(())
}
