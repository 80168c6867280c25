//! `ferretto record`.

mod args;
mod child;
mod command;
mod config;
mod control;
mod cpus;
mod disks;
mod draft;
mod dynamic;
mod groups;
mod heap;
mod launch;
mod output;
mod perf;
mod presets;
mod program;
mod progress;
mod remote;
mod remotes;
mod report;
mod resources;
mod ring;
mod segments;
mod sources;
mod symbols;
mod tee;
mod watched;

use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ferretto_ipc::address::Address;
use ferretto_probes::ftrace::{DynamicEvent, DynamicEvents, OwnInstance};
use ferretto_proto::trace_config::DataSource;
use ferretto_proto::{Message, TraceConfig};
use ferretto_text::print::message_to_text;

pub(crate) use self::args::RecordArgs;
pub(crate) use self::launch::{main as launch, parse as parse_launch};

use self::child::{CommandLine, NotRun, Running};
use self::control::{Profiling, RecordControl};
use self::output::Target;
use self::progress::Progress;
use self::watched::Watched;
use crate::backend::{Backend, NotProfiled, Own};
use crate::errors::{CANNOT_RUN, message};
use crate::messages;
use crate::output::is_standard;
use crate::preload;
use crate::session::{End, Plan, Session, Signals, Task, clone_session};
use crate::snapshots::{Snapshot, Snapshots};
use ferretto_text::terminal::shown;

/// The default duration of a recording of the machine.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The timeout of the start of data sources.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// The time between terminating and killing a command.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// The period of checks for the end of a command that outlives its recording.
const CHILD_PERIOD: Duration = Duration::from_millis(100);
/// The exit code of a program ended by Ctrl-C, as in shells.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(mut args: RecordArgs) -> Result<ExitCode> {
    match &args.hosts[..] {
        [] => {}
        [host] => return remote::run(&args, host),
        several => return remotes::run(&args, several),
    }
    if let Some(program) = args.command.first()
        && let Err(missing) = program::find(program)
    {
        let program = program.to_string_lossy();
        let reason = format!("cannot run {program}: {}", missing.as_str());
        messages::tell_error("ferretto", &shown(&reason));
        return Ok(ExitCode::from(missing.exit_code()));
    }
    if args.json && is_standard(&args.output) {
        bail!(
            "--json prints its answer on standard output, so the trace needs a file; use -o FILE"
        );
    }
    groups::select(&mut args)?;
    perf::check(&args)?;
    if args.view && is_standard(&args.output) {
        bail!("--view shows a file, but -o - writes none; remove one of them");
    }
    ring::check(&args.flight, &args.command)?;
    heap::check(&args)?;
    let dynamic = args.presets.dynamic()?;
    if args.print_config {
        return print_config(&plan_config(&args, given_config(&args)?, None, &dynamic)?)
            .map(|()| ExitCode::SUCCESS);
    }
    if !args.system {
        report::must_have_open_files(cpus())?;
    }
    // Reading the config may block, so signals keep their default effect here.
    let given = given_config(&args)?;
    let mut signals = Signals::new().context("cannot handle signals")?;
    if !args.system && args.presets.need_kernel_events() {
        report::must_have_kernel_events()?;
    }
    // Removed after the recording, when its data sources are gone, in reverse order, since the
    // kernel keeps enabled events.
    let made = if dynamic.is_empty() {
        None
    } else {
        Some(DynamicEvents::create(&dynamic)?)
    };
    let instance = own_instance(&args);
    let name = instance.as_ref().map(OwnInstance::name);
    let mut config = plan_config(&args, given, name, &dynamic)?;
    if !args.system {
        disks::describe(&mut config);
    }
    if !delay(&config, &mut signals)? {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let inputs: Vec<&Path> = args.config.iter().map(PathBuf::as_path).collect();
    let target = match args.files.segment {
        Some(every) => Some(Target::segments(&args.output, every, args.files.keep)?),
        None => Target::open(&args.output, &inputs, &mut signals)?,
    };
    let Some(target) = target else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if args.flight.ring.is_some() {
        if target.path().is_none() {
            bail!("snapshots of a ring are written next to the trace file; give one with -o");
        }
        let taken = signals.take_snapshots();
        taken.context("cannot handle signals")?;
    }
    let triggers = report::triggers(&config);
    let end = match record(&args, config, &target, &mut signals) {
        Ok(end) => end,
        Err(mut error) => {
            // A recording without the requested profile is useless, but parts are closed.
            if target.are_parts() || !error.is::<NotProfiled>() {
                error = target.fail(error, &mut signals);
            }
            let Some(NotRun { code, .. }) = error.downcast_ref() else {
                return Err(error);
            };
            messages::tell_error("ferretto", &message(&error));
            return Ok(ExitCode::from(*code));
        }
    };
    drop(instance);
    drop(made);
    if !target.are_parts() {
        signals.set_cleaned();
    }
    if args.flight.only_if_command_fails() && end.code == Some(ExitCode::SUCCESS) {
        if args.json {
            report::answer(&args.output, report::State::Discarded, None, None)?;
        } else if !args.quiet {
            eprintln!(
                "ferretto: the command succeeded, so {} is not written",
                target.name
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    if end.aborted {
        eprintln!("ferretto: aborted; {} is incomplete", target.name);
        target.keep(&mut signals)?;
        if args.json {
            report::answer(&args.output, report::State::Aborted, None, None)?;
        }
        return Ok(end.code.unwrap_or(ExitCode::from(INTERRUPTED)));
    }
    target.rename()?;
    let closed = if args.json {
        report::closing_answer(target, &args.output, &triggers, &mut signals)?
    } else {
        report::closing(target, &triggers, &mut signals, args.quiet)?
    };
    if !closed {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if args.view {
        show(&args.output)?;
    }
    Ok(end.code.unwrap_or(ExitCode::SUCCESS))
}

/// Shows a trace until its page is closed, in a process of its own with default signal handling.
fn show(trace: &Path) -> Result<()> {
    let program = std::env::current_exe().context("cannot determine the path of ferretto")?;
    let mut view = Command::new(program);
    // An absolute path never looks like an option.
    let trace = std::path::absolute(trace).context("cannot determine the path of the trace")?;
    view.arg0("ferretto").arg("view").arg(trace);
    let mut view = view.spawn().context("cannot start ferretto view")?;
    // Its exit code does not matter: it prints its errors itself.
    view.wait().context("cannot wait for ferretto view")?;
    Ok(())
}

/// Returns the config of the command line.
fn given_config(args: &RecordArgs) -> Result<Option<TraceConfig>> {
    args.config.as_deref().map(crate::config::load).transpose()
}

/// Waits for the start delay of the config. Returns false if a signal came first.
fn delay(config: &TraceConfig, signals: &mut Signals) -> Result<bool> {
    let start = Instant::now() + crate::config::start_delay(config)?;
    while Instant::now() < start {
        signals.wait(Some(start));
        if signals.take().iter().any(|signal| signal.ends()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the tracefs instance of a recording without a config. Instances have buffers of their
/// own, so recordings do not take each other's events. Without permission, the top level of tracefs
/// is used, and also for the messages of programs, which no other instance receives.
fn own_instance(args: &RecordArgs) -> Option<OwnInstance> {
    if args.config.is_some() || args.system || args.presets.want_markers() {
        return None;
    }
    OwnInstance::create().ok()
}

fn print_config(config: &TraceConfig) -> Result<()> {
    let encoded = config.encode_to_vec();
    let text = message_to_text("perfetto.protos.TraceConfig", &encoded)
        .context("the embedded schema lacks TraceConfig")?;
    io::stdout()
        .write_all(&text)
        .context("cannot write the config")
}

/// Returns the config to record with: the given one or the default, with the options of the command
/// line.
fn plan_config(
    args: &RecordArgs,
    given: Option<TraceConfig>,
    instance: Option<&str>,
    dynamic: &[DynamicEvent],
) -> Result<TraceConfig> {
    let mut config = match given {
        Some(given) => given,
        None => config::of_presets(args.presets.content(dynamic)?, cpus(), instance),
    };
    perf::add(&mut config, args);
    heap::add(&mut config, args);
    if let Some(bytes) = args.flight.ring {
        ring::keep(&mut config, bytes);
    }
    args.files.limit(&mut config)?;
    let duration = match args.duration {
        Some(duration) => Some(duration),
        None if args.files.until_size.is_some() || args.files.segment.is_some() => {
            Some(Duration::ZERO)
        }
        None if args.flight.ring.is_some() => Some(Duration::ZERO),
        None if args.config.is_some() => None,
        None if args.command.is_empty() => Some(DEFAULT_DURATION),
        None => Some(Duration::ZERO),
    };
    if let Some(duration) = duration {
        config.duration_ms = Some(duration.as_millis().try_into().unwrap_or(u32::MAX));
    }
    if !config.activate_triggers.is_empty() {
        bail!(
            "the config only activates triggers and records nothing; use it with ferretto perfetto, \
             or use ferretto trigger_perfetto"
        );
    }
    command::describe(&mut config, &args.command, &args.pids);
    // The command line decides the file.
    config.output_path = None;
    Ok(config)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1))
}

/// The result of a recording.
struct Ended {
    /// The recording was aborted by a second signal.
    aborted: bool,
    /// The exit code of the command, if there was one.
    code: Option<ExitCode>,
}

fn record(
    args: &RecordArgs,
    mut config: TraceConfig,
    target: &Target,
    signals: &mut Signals,
) -> Result<Ended> {
    let missing = if args.system {
        Vec::new()
    } else {
        report::unavailable(&config)
    };
    if args.config.is_none() {
        // Otherwise the end would wait for their start.
        let is_missing = |source: &DataSource| {
            let name = source.config.name.as_deref().unwrap_or_default();
            missing
                .iter()
                .any(|(missing, _)| missing.as_bytes() == name)
        };
        config.data_sources.retain(|source| !is_missing(source));
    }
    let plan = Plan {
        task: Task::Record,
        config,
        output: Some(target.writer().context("cannot use the file")?),
        start_patience: START_PATIENCE,
    };
    if plan.makes_snapshots() && target.path().is_none() {
        bail!(
            "the config requests snapshots, which are written next to the trace file; give one with -o"
        );
    }
    // A command on the same terminal would garble the line.
    let visible = !args.quiet && (args.json || args.command.is_empty());
    let mut progress = Progress::new(visible, plan.duration(), target.sized());
    let mut backend = if args.system {
        Backend::system()?
    } else {
        own_backend(&missing, args.quiet, &progress)?
    };
    progress.tick();
    // A command that is held for the profiler already has the variables of the heap profiler.
    let heap = match &mut backend {
        Backend::Own(own) if args.heap.is_some() => {
            let (starts, live) = own.start_heap(heap::socket(args)?, progress.reporter())?;
            progress.show_heap(live);
            Some(starts)
        }
        _ => None,
    };
    let profiler = match (&mut backend, perf::sources(&plan.config)) {
        (Backend::Own(own), sources @ 1..) => {
            let to_stderr = args.json || target.is_standard_output();
            Some(start_profiler(args, own, sources, to_stderr, &progress)?)
        }
        _ => None,
    };
    let command = !args.command.is_empty();
    let notes = sources::check(&plan.config, &backend.consumer(), command)?;
    if !args.quiet {
        let note = progress.reporter();
        notes.iter().for_each(|it| note(it));
    }
    let snapshots = target
        .path()
        .map(|out| snapshots(out, backend.consumer(), progress.reporter()));
    let command = CommandLine {
        words: args.command.clone(),
        variables: backend.variables(),
        output_to_stderr: args.json || target.is_standard_output(),
    };
    let watched = Watched::new(&args.pids);
    // A file that may be discarded is renamed at the end.
    let draft = if args.flight.only_if_command_fails() {
        None
    } else {
        target.draft()
    };
    let mut control = RecordControl::new(command, watched, progress, snapshots, draft);
    if args.flight.ring.is_some() {
        control.watch(args.flight.watch());
    }
    control.reports_slow_end = args.system;
    if let Some(profiler) = profiler {
        control.profile(profiler);
    }
    if let Some(starts) = heap {
        control.wait_also(Box::new(move || starts.wait(1)));
    }
    let ended = Session::connect(&backend.consumer(), plan)
        .map_err(|error| not_connected(&backend, error))
        .and_then(|session| run_session(session, signals, &mut control));
    control.progress.finish();
    let stopped = backend.stop();
    let give_up = ended.is_err() || control.interrupted.is_some();
    let code = match &mut control.child {
        Some(child) => {
            let ended = child.ended();
            let code = finish_child(child, give_up, signals);
            target
                .ran_command
                .set(child.pid(), child.resources(), ended);
            code
        }
        None => None,
    };
    // The code is not that of a success, since nothing was run.
    let code = match code {
        None if !args.command.is_empty() && ended.is_ok() => {
            eprintln!("ferretto: the recording ended before the command was started");
            Some(ExitCode::from(match control.interrupted {
                Some(_) => INTERRUPTED,
                None => CANNOT_RUN,
            }))
        }
        code => code,
    };
    let aborted = match ended? {
        End::Complete => false,
        End::Aborted => true,
        end => bail!("{}; {}", reason(end), target.state()),
    };
    stopped?;
    Ok(Ended { aborted, code })
}

/// Starts the profiler, and the command, which is held until the profiler is ready.
fn start_profiler(
    args: &RecordArgs,
    own: &mut Own,
    sources: usize,
    output_to_stderr: bool,
    progress: &Progress,
) -> Result<Profiling> {
    let command = if args.profiles() && !args.command.is_empty() {
        let command = CommandLine {
            words: args.command.clone(),
            variables: own.variables(),
            output_to_stderr,
        };
        let held = Running::hold(&command);
        Some(held.context("cannot start a process for the command")?)
    } else {
        None
    };
    let scope = perf::scope(args, command.as_ref().map(Running::pid));
    let profiler = own.start_profiler(scope, progress.reporter())?;
    let started = Box::new(move || profiler.wait(sources));
    Ok(Profiling { command, started })
}

/// Runs the session, and then waits for its snapshots.
fn run_session(
    mut session: Session,
    signals: &mut Signals,
    control: &mut RecordControl,
) -> Result<End> {
    let end = session.run(signals, control)?;
    let interrupted = control.interrupted.is_some();
    let complete = match &mut control.snapshots {
        Some(snapshots) => snapshots.finish(signals, interrupted),
        None => true,
    };
    Ok(if complete { end } else { End::Aborted })
}

/// The snapshots that triggers request.
fn snapshots(out: PathBuf, service: Address, note: impl Fn(&str) + Send + 'static) -> Snapshots {
    Snapshots::new(out, false, move |Snapshot { request, out }| {
        let trigger = request.clone_trigger_name.clone().unwrap_or_default();
        let trigger = String::from_utf8_lossy(&trigger).into_owned();
        let made = Target::file(&out).and_then(|target| {
            let end = clone_session(&service, request, &target.writer()?, || ())?;
            target.rename()?;
            match end {
                End::Complete => Ok(()),
                end => bail!("{}", reason(end)),
            }
        });
        let shown = out.display();
        match made {
            Ok(()) => note(&format!("{shown}: a snapshot, for the trigger {trigger}")),
            Err(error) => note(&format!(
                "{shown}: no snapshot for the trigger {trigger}: {}",
                message(&error)
            )),
        }
    })
}

/// Starts service and data sources in this process, and reports those that are not permitted.
fn own_backend(
    missing: &[(&'static str, String)],
    quiet: bool,
    progress: &Progress,
) -> Result<Backend> {
    let note = progress.reporter();
    if !quiet {
        missing.iter().for_each(|(_, sentence)| note(sentence));
    }
    let reported: Vec<&str> = missing.iter().map(|(source, _)| *source).collect();
    let waiting = progress.reporter();
    Backend::own(
        move |source, reason| {
            if !reported.contains(&source) {
                note(&format!("{source}: {reason}"));
            }
        },
        move |sentence| waiting(&format!("{sentence}; Ctrl-C ends at once")),
    )
}

fn not_connected(backend: &Backend, error: ferretto_ipc::socket::ConnectError) -> anyhow::Error {
    let hint = match backend {
        Backend::System(_) => {
            "no tracing service runs on this machine; start traced, or remove --system"
        }
        Backend::Own(_) => "cannot reach the tracing service of this process",
    };
    anyhow::Error::new(error).context(hint)
}

fn reason(end: End) -> String {
    match end {
        End::NotBound(reason) => reason,
        End::Failed(reason) => format!("the tracing service refused or failed: {}", shown(&reason)),
        End::LostTracing | End::LostReading => {
            "the connection to the tracing service was lost".to_owned()
        }
        End::ReadGap => "the tracing service stopped sending the trace".to_owned(),
        End::Stuck => "the tracing service did not end the recording in time".to_owned(),
        // Recordings are neither detached nor attached.
        End::DetachRefused(_) | End::AttachRefused | End::AttachWithoutFile | End::Detached => {
            "the tracing service sent an unexpected reply".to_owned()
        }
        End::Complete | End::Aborted => String::new(),
    }
}

/// Waits for a command that outlives its recording, and returns its exit code; `None` if it was
/// still held, and is not run. With `terminate`, ends it after a short wait.
fn finish_child(child: &mut Running, terminate: bool, signals: &mut Signals) -> Option<ExitCode> {
    use rustix::process::Signal as Kill;

    if child.cancel() {
        return None;
    }
    let mut patience = terminate.then(|| {
        child.signal(Kill::TERM);
        std::time::Instant::now() + TERMINATION_GRACE
    });
    while !child.has_ended() {
        // The signal of its end may get lost.
        let look_again = std::time::Instant::now() + CHILD_PERIOD;
        signals.wait(Some(patience.map_or(look_again, |at| at.min(look_again))));
        for signal in signals.take() {
            if signal.ends() {
                child.signal(Kill::TERM);
                patience.get_or_insert(std::time::Instant::now() + TERMINATION_GRACE);
            }
        }
        if patience.is_some_and(|at| at <= std::time::Instant::now()) {
            child.signal(Kill::KILL);
        }
    }
    if let Some(signal) = child.killed_by() {
        eprintln!("ferretto: the command was killed by signal {signal}");
    }
    if child.may_not_have_started() {
        eprintln!(
            "ferretto: the command ended with code {}; if the message above is of the dynamic linker, it cannot start \
             with {}, which is for programs that use glibc; profile such a program with the allocator \
             ferretto_heap::Allocator",
            preload::NOT_STARTED,
            preload::NAME
        );
    }
    child.exit_code()
}
