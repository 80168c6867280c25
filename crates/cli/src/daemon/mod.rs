//! Programs that run until they are told to end.

pub(crate) mod background;
mod producer;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use lexopt::{Arg, Parser};

pub(crate) use self::producer::{Service, serve};
use crate::errors;

/// A daemon; the value holds its options.
pub(crate) trait Daemon: Default {
    /// Its name as a program.
    const NAME: &'static str;
    /// Shown for `--help`, and below what is wrong with the arguments.
    const USAGE: &'static str;

    /// Takes the option `--name`. Those that all daemons have are taken care of.
    fn option(&mut self, name: &str, parser: &mut Parser) -> Result<Taken, Complaint>;

    /// What is to be done before whoever started it in the background goes on.
    fn prepare(&self) {}

    /// Runs until it is told to end.
    fn serve(self) -> Result<()>;
}

/// What has become of an option.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    Known,
    Unknown,
    /// This is to be done, and nothing else.
    Instead(fn()),
}

/// What is wrong with an option.
#[derive(Debug)]
pub(crate) enum Complaint {
    /// Shown with the usage.
    Option(String),
    /// Shown alone.
    Alone(String),
}

impl From<lexopt::Error> for Complaint {
    fn from(error: lexopt::Error) -> Self {
        Self::Option(error.to_string())
    }
}

enum Action<D> {
    Run { daemon: D, background: bool },
    Instead(fn()),
    Version,
    Usage,
}

pub(crate) fn main<D: Daemon>(args: Vec<OsString>) -> ExitCode {
    finish::<D>(run::<D>(args, false))
}

/// The process that `--background` started.
pub(crate) fn in_background<D: Daemon>(args: &[OsString]) -> ExitCode {
    finish::<D>(run::<D>(args.to_vec(), true))
}

fn finish<D: Daemon>(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| errors::report(D::NAME, &error))
}

fn run<D: Daemon>(args: Vec<OsString>, is_in_background: bool) -> Result<ExitCode> {
    let (daemon, background) = match parse::<D>(args.clone()) {
        Ok(Action::Run { daemon, background }) => (daemon, background),
        Ok(Action::Instead(action)) => {
            action();
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Action::Version) => {
            println!("{}", ferretto_host::service_options().version);
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Action::Usage) => return Ok(refuse(D::USAGE)),
        Err(Complaint::Option(text)) => return Ok(refuse(&format!("{text}\n{}", D::USAGE))),
        Err(Complaint::Alone(text)) => return Ok(refuse(&format!("{text}\n"))),
    };
    if background && !is_in_background {
        return background::start(D::NAME, &args);
    }
    daemon.prepare();
    if is_in_background {
        background::tell_and_detach()?;
    }
    daemon.serve()?;
    Ok(ExitCode::SUCCESS)
}

fn refuse(text: &str) -> ExitCode {
    anstream::eprint!("{text}");
    ExitCode::FAILURE
}

fn parse<D: Daemon>(args: Vec<OsString>) -> Result<Action<D>, Complaint> {
    let mut daemon = D::default();
    let mut background = false;
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        let name = match arg {
            Arg::Long("background") => {
                background = true;
                continue;
            }
            Arg::Long("version") => return Ok(Action::Version),
            Arg::Short('h') | Arg::Long("help") => return Ok(Action::Usage),
            Arg::Long(name) => name.to_owned(),
            other => return Err(other.unexpected().into()),
        };
        match daemon.option(&name, &mut parser)? {
            Taken::Known => {}
            Taken::Unknown => return Err(Arg::Long(&name).unexpected().into()),
            Taken::Instead(action) => return Ok(Action::Instead(action)),
        }
    }
    Ok(Action::Run { daemon, background })
}
