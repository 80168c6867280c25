//! Controls the start and end of a recording: its command, signals and progress line.

use std::time::{Duration, Instant};

use anyhow::Result;
use ferretto_proto::observable_events::CloneTriggerHit;

use super::child::{CommandLine, NotRun, Running};
use super::cpus;
use super::draft::Draft;
use super::progress::Progress;
use super::ring::{self, Watch};
use super::watched::Watched;
use crate::errors::message;
use crate::session::{Control, Reaction, Signal};
use crate::snapshots::Snapshots;

/// The time after Ctrl-C at which a command that still runs is terminated.
const CHILD_GRACE: Duration = Duration::from_secs(2);

/// The delay of the end of a recording after which it is reported.
const SLOW_END: Duration = Duration::from_secs(2);

/// The period of checks, and of updates of the progress line.
const PERIOD: Duration = Duration::from_millis(100);

/// The period while a ring waits for a signal or a condition, perhaps for days.
const CALM_PERIOD: Duration = Duration::from_secs(1);

/// A started profiler.
pub(super) struct Profiling {
    /// The held command.
    pub(super) command: Option<Running>,
    pub(super) started: ProfilerStarted,
}

/// Waits until callstacks are recorded, and returns messages about failures.
pub(super) type ProfilerStarted = Box<dyn FnOnce() -> Result<Vec<String>>>;

/// The controls of `ferretto record`.
pub(super) struct RecordControl {
    command: CommandLine,
    pub(super) child: Option<Running>,
    /// True if the end of the command was noticed, which ends the recording once.
    child_has_ended: bool,
    /// The processes whose end ends the recording.
    watched: Watched,
    /// The file, until it is renamed.
    draft: Option<Draft>,
    has_started: bool,
    /// The time at which the recording ends by itself and only data sources may delay it.
    ends: Option<Instant>,
    /// Set if the service is elsewhere, so this process reports slow data sources.
    pub(super) reports_slow_end: bool,
    pub(super) progress: Progress,
    pub(super) snapshots: Option<Snapshots>,
    /// The time of the signal that ended the recording.
    pub(super) interrupted: Option<Instant>,
    /// The conditions of snapshots, if the recording is a ring.
    watch: Option<Watch>,
    /// The profilers to wait for.
    profilers_started: Vec<ProfilerStarted>,
}

impl RecordControl {
    pub(super) fn new(
        command: CommandLine,
        watched: Watched,
        progress: Progress,
        snapshots: Option<Snapshots>,
        draft: Option<Draft>,
    ) -> Self {
        Self {
            command,
            child: None,
            child_has_ended: false,
            watched,
            draft,
            has_started: false,
            ends: None,
            reports_slow_end: false,
            progress,
            snapshots,
            interrupted: None,
            watch: None,
            profilers_started: Vec::new(),
        }
    }

    /// Starts the recording when the profiler is ready.
    pub(super) fn profile(&mut self, profiling: Profiling) {
        self.child = profiling.command;
        self.profilers_started.push(profiling.started);
    }

    /// Starts the recording when another profiler is ready, too.
    pub(super) fn wait_also(&mut self, started: ProfilerStarted) {
        self.profilers_started.push(started);
    }

    /// Makes snapshots whenever a condition becomes true, and on request.
    pub(super) fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    fn snapshot_of_ring(&mut self, reason: &str) {
        let Some(snapshots) = self.snapshots.as_mut().filter(|_| self.has_started) else {
            return;
        };
        if let Err(error) = snapshots.add_of(&ring::session_name(), reason) {
            self.progress.reporter()(&message(&error));
        }
    }

    fn child_runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !child.has_ended())
    }

    /// Returns true if the command has ended, in the first call after its end only.
    fn child_just_ended(&mut self) -> bool {
        let has_ended = self.child.is_some() && !self.child_runs();
        has_ended && !std::mem::replace(&mut self.child_has_ended, true)
    }

    /// Handles Ctrl-C. It reaches the command, too, which decides how to end; its last events are
    /// recorded.
    fn interrupt(&mut self, signal: Signal) -> Reaction {
        let is_over = self.ends.is_some_and(|at| at <= Instant::now());
        if self.interrupted.is_some() || (is_over && !self.child_runs()) {
            return Reaction::Abort;
        }
        self.interrupted = Some(Instant::now());
        if !self.child_runs() {
            return Reaction::Stop;
        }
        if signal == Signal::Terminate {
            self.terminate_child();
        }
        Reaction::GoOn
    }

    /// Renames the file once it has data, since the recording may fail before its start.
    fn rename_draft(&mut self) {
        if !self.has_started {
            return;
        }
        if let Some(draft) = &self.draft
            && let Err(error) = draft.rename()
        {
            self.progress.reporter()(&message(&error));
            // It is tried again at the end.
            self.draft = None;
        }
    }

    fn terminate_child(&mut self) {
        if let Some(child) = &mut self.child {
            child.signal(rustix::process::Signal::TERM);
        }
    }
}

impl Control for RecordControl {
    fn period(&self) -> Option<Duration> {
        let is_calm = self.has_started
            && self.watch.is_some()
            && self.watched.is_empty()
            && self.interrupted.is_none()
            && !self.progress.is_lively();
        Some(if is_calm { CALM_PERIOD } else { PERIOD })
    }

    fn started(&mut self, all: bool) -> Result<()> {
        if !all {
            self.progress.reporter()("not all data sources have started; continuing without them");
        }
        for started in std::mem::take(&mut self.profilers_started) {
            let report = self.progress.reporter();
            started()?.iter().for_each(|missing| report(missing));
        }
        self.progress.start();
        self.has_started = true;
        self.ends = self.progress.duration().map(|time| Instant::now() + time);
        let Some(program) = self.command.words.first() else {
            return Ok(());
        };
        cpus::visit();
        let started = match &mut self.child {
            Some(child) => child.release(),
            None => Running::start(&self.command).map(|child| self.child = Some(child)),
        };
        started.map_err(|error| {
            let not_run = NotRun::new(program, &error);
            anyhow::Error::new(error).context(not_run)
        })
    }

    fn snapshot(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        match &mut self.snapshots {
            Some(snapshots) => snapshots.add(hit),
            None => Ok(()),
        }
    }

    fn signal(&mut self, signal: Signal) -> Reaction {
        match signal {
            Signal::Interrupt | Signal::Terminate => self.interrupt(signal),
            Signal::Child if self.child_just_ended() => Reaction::Stop,
            Signal::Child => Reaction::GoOn,
            Signal::Snapshot => {
                self.snapshot_of_ring("SIGUSR1");
                Reaction::GoOn
            }
        }
    }

    fn stopping(&mut self) {
        self.progress.stopping();
    }

    fn tick(&mut self) -> Reaction {
        self.progress.tick();
        if let Some(ends) = self.ends.filter(|at| *at <= Instant::now()) {
            self.progress.stopping();
            if ends.elapsed() > SLOW_END && std::mem::take(&mut self.reports_slow_end) {
                self.progress.reporter()(
                    "the tracing service waits for data sources that do not reply; Ctrl-C ends at once",
                );
            }
        }
        self.rename_draft();
        // Without memory, the kernel does not deliver the message of the signal.
        if self.child_just_ended() {
            return Reaction::Stop;
        }
        if self.has_started
            && let Some(watch) = &mut self.watch
        {
            for reason in watch.became_true() {
                self.snapshot_of_ring(&reason);
            }
        }
        if self.has_started && self.watched.have_ended() {
            self.progress.reporter()("the recorded processes have ended");
            return Reaction::Stop;
        }
        let late = self
            .interrupted
            .is_some_and(|at| at.elapsed() > CHILD_GRACE);
        if late && self.child_runs() {
            self.terminate_child();
            return Reaction::Stop;
        }
        Reaction::GoOn
    }
}
