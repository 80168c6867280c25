//! `traced_perf`: the callstack profiler as a daemon.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use ferretto_perf::config::MAX_STACK_BYTES;
use ferretto_perf::{Format, Notice, Options as ProfilerOptions, Profiler};
use ferretto_shm::take_inherited;
use lexopt::Arg;

use crate::session::Signals;
use crate::{daemon, errors, privileges};

const USAGE: &str = "\
Usage: traced_perf [OPTIONS]
The callstack profiler: the data source linux.perf. Samples every process for root and
with CAP_PERFMON and CAP_SYS_PTRACE, otherwise those of its user that a config names.

  --background                go on in the background, print the process id
  --stack-samples             write StackSample packets instead of PerfSample
  --stack-bytes N             copy so much of each stack (default 65280, or less where memory
                              for rings is short); less is cheaper at high rates
  --descriptor-socket PATH    where processes may hand over their maps and memory
  --version                   show the version

Environment:
  PERFETTO_PRODUCER_SOCK_NAME   where the tracing service listens
  TRACED_PERF_NOTIFY_FD         a descriptor that gets a 1 when all are registered
";

/// Names the descriptor to which `1` is written when every data source is registered.
const NOTIFY_VARIABLE: &str = "TRACED_PERF_NOTIFY_FD";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Options {
    background: bool,
    stack_samples: bool,
    stack_bytes: Option<u32>,
    descriptor_socket: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Run(Options),
    Version,
}

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    finish(run(args, false))
}

/// The process that `--background` started.
pub(crate) fn background(args: &[OsString]) -> ExitCode {
    finish(run(args.to_vec(), true))
}

fn finish(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| errors::report("traced_perf", &error))
}

fn run(args: Vec<OsString>, in_background: bool) -> Result<ExitCode> {
    let options = match parse(args.clone()) {
        Ok(Action::Run(options)) => options,
        Ok(Action::Version) => {
            println!("{}", ferretto_host::service_options().version);
            return Ok(ExitCode::SUCCESS);
        }
        Err(message) => {
            anstream::eprint!("{message}");
            return Ok(ExitCode::FAILURE);
        }
    };
    if options.background && !in_background {
        return daemon::start("traced_perf", &args);
    }
    if in_background {
        daemon::tell_and_detach()?;
    }
    serve(options)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs until SIGTERM or SIGINT.
fn serve(options: Options) -> Result<()> {
    let mut signals = Signals::new().context("cannot take over signals")?;
    privileges::allow_descriptors();
    // Before there are other threads, each of which has its own.
    if let Err(error) = privileges::keep_only(privileges::OF_PROFILER) {
        eprintln!(
            "traced_perf: privileges are kept: {}",
            errors::reason(&error)
        );
    }
    let notified = AtomicBool::new(false);
    let profiler = Profiler::new(ProfilerOptions {
        on_notice: Some(Arc::new(say)),
        on_ready: Some(Arc::new(move || {
            if !notified.swap(true, Ordering::Relaxed) {
                notify();
            }
        })),
        format: if options.stack_samples {
            Format::StackSample
        } else {
            Format::PerfSample
        },
        stack_bytes: options.stack_bytes,
        descriptor_socket: options.descriptor_socket,
        ..ProfilerOptions::default()
    })
    .context("cannot set up the profiler")?;
    let stopper = profiler.stopper();
    let thread = std::thread::Builder::new()
        .name("perf-reader".to_owned())
        .spawn(move || profiler.run())
        .context("cannot start a thread")?;
    while signals.take().iter().all(|signal| !signal.ends()) {
        signals.wait(None);
    }
    stopper.stop();
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("crashed; please report this"))
}

/// Says what happens, but not again and again that there is no service: it is tried for ever.
fn say(notice: &Notice) {
    static DISCONNECTED: AtomicBool = AtomicBool::new(false);
    let disconnected = matches!(notice, Notice::Disconnected(_));
    let before = match notice {
        Notice::Connected | Notice::Disconnected(_) => {
            DISCONNECTED.swap(disconnected, Ordering::Relaxed)
        }
        Notice::Started { .. } => return,
        Notice::Remark { .. } | Notice::Failed { .. } => false,
    };
    if !(disconnected && before) {
        eprintln!(
            "traced_perf: {}",
            errors::without_numbers(&notice.to_string())
        );
    }
}

/// Tells whoever started this program that every data source is registered.
fn notify() {
    let variable = std::env::var(NOTIFY_VARIABLE).ok();
    if let Some(number) = variable.and_then(|text| text.parse::<i32>().ok()) {
        let told = take_inherited(number).and_then(|fd| File::from(fd).write_all(b"1"));
        if let Err(error) = told {
            eprintln!("traced_perf: {NOTIFY_VARIABLE}: {}", errors::reason(&error));
        }
    }
}

fn parse(args: Vec<OsString>) -> Result<Action, String> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(|error| format!("{error}\n{USAGE}"))? {
        match arg {
            Arg::Long("background") => options.background = true,
            Arg::Long("stack-samples") => options.stack_samples = true,
            Arg::Long("stack-bytes") => options.stack_bytes = Some(stack_bytes(&mut parser)?),
            Arg::Long("descriptor-socket") => {
                let path = parser
                    .value()
                    .map_err(|error| format!("{error}\n{USAGE}"))?;
                options.descriptor_socket = Some(path.into());
            }
            Arg::Long("version") => return Ok(Action::Version),
            Arg::Short('h') | Arg::Long("help") => return Err(USAGE.to_owned()),
            other => return Err(format!("{}\n{USAGE}", other.unexpected())),
        }
    }
    Ok(Action::Run(options))
}

/// The size of copies of stacks.
fn stack_bytes(parser: &mut lexopt::Parser) -> Result<u32, String> {
    let value = parser
        .value()
        .map_err(|error| format!("{error}\n{USAGE}"))?;
    let number = value.to_str().and_then(|text| text.parse::<u32>().ok());
    number
        .filter(|&bytes| bytes != 0 && bytes <= MAX_STACK_BYTES && bytes.is_multiple_of(8))
        .ok_or_else(|| {
            format!("--stack-bytes takes a multiple of 8 up to {MAX_STACK_BYTES}, not {value:?}\n{USAGE}")
        })
}
