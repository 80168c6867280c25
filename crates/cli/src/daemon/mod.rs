//! Daemons: programs that run until stopped.

pub(crate) mod background;
mod producer;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use lexopt::{Arg, Parser};

pub(crate) use self::producer::{Offers, Service, environment, serve};
use crate::errors;
use crate::output::print_line;
use crate::usage::{self, Row};

/// A daemon; the value holds its options.
pub(crate) trait Daemon: Default + 'static {
    /// Its name as a program.
    const NAME: &'static str;
    /// Its description in the usage text.
    const ABOUT: &'static str;
    /// Its options, without the common ones.
    const OPTIONS: &'static [DaemonOption<Self>];
    /// The column of the descriptions in the usage text.
    const COLUMN: usize;
    /// The environment variables that it reads.
    const ENVIRONMENT: &'static [Row<'static>];
    /// The end of the usage text.
    const NOTE: &'static str = "";

    /// Returns a complaint about a missing argument, which is shown with the usage text.
    fn check(&self) -> Result<(), Complaint> {
        Ok(())
    }

    /// Prepares the daemon, before the parent of a background process continues.
    fn prepare(&self) {}

    /// Runs until stopped.
    fn serve(self) -> Result<()>;
}

/// An option of a daemon: its name with a placeholder for its value, its description, and a
/// function that parses it.
pub(crate) struct DaemonOption<D>(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) fn(&mut D, &mut Parser) -> Result<Taken, Complaint>,
);

impl<D> DaemonOption<D> {
    fn is(&self, name: &str) -> bool {
        self.0.split(' ').next() == Some(name)
    }
}

/// The result of parsing an option.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    /// The option is stored.
    Known,
    /// The program does only this.
    Instead(fn()),
}

/// A complaint about an option.
#[derive(Debug)]
pub(crate) enum Complaint {
    /// Shown with the usage text.
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

/// Runs the process that `--background` started.
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
            print_line(ferretto_host::service_options().version)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Action::Usage) => return Ok(refuse(&usage::<D>())),
        Err(Complaint::Option(text)) => return Ok(refuse(&format!("{text}\n{}", usage::<D>()))),
        Err(Complaint::Alone(text)) => return Ok(refuse(&format!("{text}\n"))),
    };
    if background && !is_in_background {
        return background::start(D::NAME, &args);
    }
    daemon.prepare();
    if is_in_background {
        background::report_and_detach()?;
    }
    daemon.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// The smallest column of the descriptions of environment variables.
const ENVIRONMENT_COLUMN: usize = 32;

fn usage<D: Daemon>() -> String {
    let mut text = format!("Usage: {} [OPTIONS]\n{}\n\n", D::NAME, D::ABOUT);
    let own = D::OPTIONS.iter().map(|option| (option.0, option.1));
    let first = [(
        "background",
        "run in the background and print the process id",
    )];
    let last = [("version", "show the version")];
    for (name, meaning) in first.into_iter().chain(own).chain(last) {
        let typed = &format!("--{name}");
        usage::add(&mut text, D::COLUMN, [Row { typed, meaning }]);
    }
    text += "\nEnvironment:\n";
    let column = D::COLUMN.max(ENVIRONMENT_COLUMN);
    usage::add(&mut text, column, D::ENVIRONMENT.iter().copied());
    text + D::NOTE
}

fn refuse(text: &str) -> ExitCode {
    eprint!("{text}");
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
        let Some(option) = D::OPTIONS.iter().find(|option| option.is(&name)) else {
            return Err(Arg::Long(&name).unexpected().into());
        };
        if let Taken::Instead(action) = (option.2)(&mut daemon, &mut parser)? {
            return Ok(Action::Instead(action));
        }
    }
    daemon.check()?;
    Ok(Action::Run { daemon, background })
}
