//! `perfetto`: upstream's command, its messages and exit codes.
//!
//! Not there yet and refused with a message: detached sessions, bugreports, snapshots on
//! triggers, `--notify-fd`.

mod args;
mod background;
mod clone;
mod config;
mod light;
mod query;
mod run;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use ferretto_proto::TraceConfig;
use rustix::rand::{GetRandomFlags, getrandom};

use self::args::{Action, Background, Options};
use self::clone::CloneOptions;
use crate::errors::{message, reason};

pub(crate) use self::background::main as background;

/// Everything that ends with an error ends with this.
const FAILURE: u8 = 1;

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let action = match args::parse(args, |name| crate::config::read(Path::new(name))) {
        Ok(action) => action,
        Err(refusal) => {
            anstream::eprintln!("{refusal}");
            return ExitCode::from(FAILURE);
        }
    };
    let done = match action {
        Action::Version => {
            println!("{}", ferretto_host::service_options().version);
            Ok(ExitCode::SUCCESS)
        }
        Action::ResetGuardrails => {
            eprintln!("Guardrails have no state here; nothing to reset.");
            Ok(ExitCode::SUCCESS)
        }
        Action::Query { long } => query::text(long),
        Action::QueryRaw => query::raw(),
        Action::Record(options) => record(&options),
        Action::Clone(options) => clone_into(&options),
    };
    done.unwrap_or_else(|error| {
        anstream::eprintln!("{}", message(&error));
        ExitCode::from(FAILURE)
    })
}

fn record(options: &Options) -> Result<ExitCode> {
    if options.notify_fd.is_some() {
        bail!("--notify-fd is not supported by this version of Ferretto; -D waits in the same way");
    }
    let config = config::build(options)?;
    let (name, file) = match &options.out {
        Some(path) => open(path, options.no_clobber).map(|(name, file)| (name, Some(file)))?,
        None => (
            config::output_path(&config)
                .unwrap_or_default()
                .display()
                .to_string(),
            None,
        ),
    };
    let job = run::Job {
        config,
        name,
        file,
        path: options.out.clone(),
    };
    match options.background {
        Background::No => {
            start_delay(&job.config)?;
            Ok(run::run(job, |_| ()))
        }
        Background::Yes => background::start(job, false),
        Background::Wait => background::start(job, true),
    }
}

fn clone_into(options: &CloneOptions) -> Result<ExitCode> {
    let (name, file) = open(&options.out, options.no_clobber)?;
    let job = run::Job {
        config: TraceConfig::default(),
        name,
        file: Some(file.try_clone()?),
        path: Some(options.out.clone()),
    };
    clone::run(options, &job, &file)
}

/// Creates the output. Its mode does not depend on the umask.
fn open(path: &Path, no_clobber: bool) -> Result<(String, File)> {
    if path.as_os_str() == "-" {
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        return Ok(("stdout".to_owned(), stdout.into()));
    }
    let name = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match no_clobber {
        true => options.create_new(true),
        false => options.create(true).truncate(true),
    };
    match options.open(path) {
        Ok(file) => Ok((name, file)),
        Err(error) if no_clobber && error.kind() == io::ErrorKind::AlreadyExists => bail!(
            "Error: Output file '{name}' already exists, refusing to overwrite due to \
             '--no-clobber'."
        ),
        Err(error) => bail!("Failed to open {name}. {}", reason(&error)),
    }
}

/// Waits for a random time, if the config asks for it.
fn start_delay(config: &TraceConfig) -> Result<()> {
    let delay = &config.cmd_trace_start_delay;
    let (Some(min), Some(max)) = (delay.min_delay_ms, delay.max_delay_ms) else {
        return Ok(());
    };
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let span = u64::from(max.saturating_sub(min)) + 1;
    let ms = u64::from(min) + u64::from_le_bytes(random) % span;
    std::thread::sleep(Duration::from_millis(ms));
    Ok(())
}
