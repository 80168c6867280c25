//! `perfetto`: upstream's command, its messages and exit codes.

mod args;
mod background;
mod bugreport;
mod config;
mod flags;
mod job;
mod light;
mod notify;
mod outcome;
mod query;
mod run;
mod service;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use ferretto_proto::clone_session_request::Selector;

use self::args::{Action, Background, CloneOptions, Config, Options, ProcessOptions, Source};
use self::flags::Refusal;
use self::job::{Job, Work};
use self::notify::Listeners;
use self::outcome::FAILURE;
use crate::errors::{message, reason};
use crate::output::{Destination, create, lock, print_line};
use crate::session::Task;

pub(crate) use self::background::main as background;
pub(crate) use self::service::Provider;

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    main_with(args, Provider::System, "")
}

/// Runs the command with another provider of the service, and an addition to the usage text.
pub(crate) fn main_with(args: Vec<OsString>, provider: Provider, usage: &str) -> ExitCode {
    let action = match args::parse(args, |name| crate::config::read(Path::new(name))) {
        Ok(action) => action,
        Err(refusal) => {
            eprintln!("{refusal}");
            if matches!(refusal, Refusal::Usage(_)) {
                eprint!("{usage}");
            }
            return ExitCode::from(FAILURE);
        }
    };
    act(action, provider).unwrap_or_else(|error| {
        eprintln!("{}", message(&error));
        ExitCode::from(FAILURE)
    })
}

fn act(action: Action, provider: Provider) -> Result<ExitCode> {
    match action {
        Action::Version => {
            print_line(ferretto_host::service_options().version)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::ResetGuardrails => {
            eprintln!("Guardrails have no state here; nothing to reset.");
            Ok(ExitCode::SUCCESS)
        }
        Action::Query { long } => query::text(&provider.service()?.consumer, long),
        Action::QueryRaw => query::raw(&provider.service()?.consumer),
        Action::Record(options) => start(record(&options, provider)?, &options.process),
        Action::Clone(options) => start(clone(&options, provider)?, &options.process),
        Action::SaveAll(process) => start(Job::new(Work::SaveAll, provider), &process),
        Action::Attach { key, then, process } => {
            let work = Work::Session(Task::Attach { key, then });
            start(Job::new(work, provider), &process)
        }
    }
}

/// Runs the job, in the background if requested.
fn start(job: Job, process: &ProcessOptions) -> Result<ExitCode> {
    match process.background {
        Background::No => {
            let mut listeners = Listeners::inherited(process.notify_fd)?;
            Ok(run::run(&job, &mut listeners))
        }
        Background::Yes => background::start(job, process.notify_fd, false),
        Background::Wait => background::start(job, process.notify_fd, true),
    }
}

fn record(options: &Options, provider: Provider) -> Result<Job> {
    let config = config::build(options)?;
    let task = match &options.detach {
        Some(key) => Task::Detach(key.clone()),
        None => Task::Record,
    };
    let mut job = Job::new(Work::Session(task), provider);
    job.config = config;
    job.no_clobber = options.no_clobber;
    if !job.config.activate_triggers.is_empty() {
        job.work = Work::Triggers;
        return Ok(job);
    }
    let inputs: &[&Path] = match &options.config {
        Some(Config::File { name, .. }) => &[Path::new(name)],
        _ => &[],
    };
    Ok(match &options.out {
        Some(path) => job.into(path, open(path, inputs, options.no_clobber)?),
        None => {
            let path = config::output_path(&job.config).unwrap_or_default();
            job.name = path.display().to_string();
            job
        }
    })
}

fn clone(options: &CloneOptions, provider: Provider) -> Result<Job> {
    let mut request = bugreport::request(0);
    request.skip_trace_filter = Some(options.for_bugreport);
    request.for_bugreport = Some(options.for_bugreport);
    request.selector = Some(match &options.source {
        Source::Id(id) => Selector::SessionId(*id),
        Source::Name(name) => Selector::UniqueSessionName(name.clone()),
    });
    let work = Work::Session(Task::Clone(Box::new(request)));
    let job = Job::new(work, provider);
    Ok(match &options.out {
        Some(path) => job.into(path, open(path, &[], options.no_clobber)?),
        None => {
            eprintln!("Invoked perfetto with --save-for-bugreport");
            let path = bugreport::path();
            job.into(&path, bugreport::create(&path)?)
        }
    })
}

/// Creates the output, which must not be one of `inputs`. Its mode does not depend on the umask.
fn open(path: &Path, inputs: &[&Path], no_clobber: bool) -> Result<(String, File)> {
    if path.as_os_str() == "-" {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        return Ok(("stdout".to_owned(), stdout.into()));
    }
    let name = path.display().to_string();
    if no_clobber {
        // Neither truncates a file nor follows a link.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(MODE);
        return match options.open(path) {
            Ok(file) => {
                lock(&file);
                Ok((name, file))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "Error: Output file '{name}' already exists, refusing to overwrite due to \
                 '--no-clobber'."
            ),
            Err(error) => bail!("Failed to open {name}. {}", reason(&error)),
        };
    }
    let file = match Destination::of(path) {
        Ok(Destination::Regular(target)) => create(&target, path, inputs, MODE),
        Ok(Destination::Special(special)) => {
            let file = special.open(OpenOptions::new().read(true).write(true));
            file.map(Some).map_err(Into::into)
        }
        Err(error) => Err(error.into()),
    };
    match file.map_err(|error| failed_to_open(&name, error))? {
        Some(file) => Ok((name, file)),
        None => bail!("Failed to open {name}. Another recording is being written to it."),
    }
}

/// The mode of new files: only the owner can read a trace.
const MODE: u32 = 0o600;

/// Describes why the output cannot be opened.
fn failed_to_open(name: &str, error: anyhow::Error) -> anyhow::Error {
    match error.root_cause().downcast_ref::<io::Error>() {
        Some(cause) => anyhow::anyhow!("Failed to open {name}. {}", reason(cause)),
        None => error,
    }
}
