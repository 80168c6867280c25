//! Runs a job with a tracing service.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use ferretto_ipc::address::Address;
use ferretto_ipc::socket::Socket;
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::observable_events::CloneTriggerHit;

use super::bugreport;
use super::job::{Job, Work};
use super::notify::Listeners;
use super::outcome::{FAILURE, INTERRUPTED, clone, finish, is_strict};
use super::service::Provider;
use crate::config::start_delay;
use crate::errors::message;
use crate::session::{Control, Plan, Reaction, Session, Signal, Signals, Task};
use crate::snapshots::{Snapshot, Snapshots};
use crate::trigger_perfetto;

/// The time to wait for the start of data sources, as long as that of `-D`.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// The messages, notifications and snapshots of a session.
struct PerfettoControl<'a> {
    ttl: Option<Duration>,
    listeners: &'a mut Listeners,
    snapshots: Option<Snapshots>,
    signalled: bool,
}

impl Control for PerfettoControl<'_> {
    fn connected(&mut self) {
        match self.ttl {
            Some(ttl) => {
                let seconds = ttl.as_millis().div_ceil(1000);
                eprintln!("Connected to the Perfetto traced service, TTL: {seconds}s");
            }
            None => eprintln!("Connected to the Perfetto traced service, starting tracing"),
        }
    }

    fn started(&mut self, all: bool) -> Result<()> {
        // Without all of them, the waiting process has its own limit.
        if all {
            self.listeners.notify(true);
        }
        Ok(())
    }

    fn snapshot(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        match &mut self.snapshots {
            Some(snapshots) => snapshots.add(hit),
            None => Ok(()),
        }
    }

    fn signal(&mut self, signal: Signal) -> Reaction {
        if !signal.ends() {
            return Reaction::GoOn;
        }
        if self.signalled {
            return Reaction::Abort;
        }
        self.signalled = true;
        eprintln!("SIGINT/SIGTERM received: disabling tracing.");
        Reaction::Stop
    }
}

/// Runs a job. Notifies processes that wait for its start or failure.
pub(super) fn run(job: &Job, listeners: &mut Listeners) -> ExitCode {
    let code = attempt(job, listeners).unwrap_or_else(|error| {
        eprintln!("{}", message(&error));
        FAILURE
    });
    listeners.notify(code == 0);
    ExitCode::from(code)
}

fn attempt(job: &Job, listeners: &mut Listeners) -> Result<u8> {
    if matches!(job.work, Work::Session(Task::Record | Task::Detach(_))) {
        std::thread::sleep(start_delay(&job.config)?);
    }
    // Before the service starts, so that a signal also ends the service.
    let mut signals = Signals::new()?;
    let service = job.provider.service()?;
    match &job.work {
        Work::Session(task) => {
            let code = session(job, task, &service.consumer, &mut signals, listeners)?;
            // As in upstream's tracebox, which ignores the outcome.
            let lenient = job.provider != Provider::System && !is_strict();
            Ok(if lenient { 0 } else { code })
        }
        Work::SaveAll => {
            if reachable(&service.consumer) {
                bugreport::save_all(&service.consumer)
            } else {
                Ok(FAILURE)
            }
        }
        Work::Triggers => {
            let triggers = job.config.activate_triggers.clone();
            trigger_perfetto::activate(&service.producer, triggers).map(|()| 0)
        }
    }
}

fn plan(job: &Job, task: &Task) -> Result<Plan> {
    Ok(Plan {
        task: task.clone(),
        config: job.config.clone(),
        output: job.file.as_ref().map(File::try_clone).transpose()?,
        start_patience: START_PATIENCE,
    })
}

fn session(
    job: &Job,
    task: &Task,
    service: &Address,
    signals: &mut Signals,
    listeners: &mut Listeners,
) -> Result<u8> {
    let plan = plan(job, task)?;
    let ttl = plan.duration();
    let Some(mut session) = connect(service, plan) else {
        return Ok(FAILURE);
    };
    let out = job.snapshots.clone();
    let mut control = PerfettoControl {
        ttl,
        listeners,
        snapshots: out.map(|out| snapshots(out, job.no_clobber, service.clone())),
        signalled: false,
    };
    let end = session.run(signals, &mut control)?;
    let mut snapshots = control.snapshots.take();
    let signalled = control.signalled;
    let code = finish(job, end);
    let complete = snapshots
        .as_mut()
        .is_none_or(|snapshots| snapshots.finish(signals, signalled));
    // After the snapshots, since dropping the session frees the data that they copy.
    drop(session);
    Ok(if complete { code } else { INTERRUPTED })
}

/// Returns the snapshots, which triggers request.
fn snapshots(out: PathBuf, no_clobber: bool, service: Address) -> Snapshots {
    let make = move |request: CloneSessionRequest, out: &Path| {
        let work = Work::Session(Task::Clone(Box::new(request)));
        let job = Job::new(work, Provider::System).into(out, super::open(out, &[], no_clobber)?);
        clone(&job, &service, || ())
    };
    Snapshots::new(out, no_clobber, move |Snapshot { request, out }| {
        let failed = match make(request, &out) {
            Ok(0) => return,
            Ok(code) => code.to_string(),
            Err(error) => message(&error),
        };
        eprintln!("The snapshot {} failed: {failed}", out.display());
    })
}

fn connect(service: &Address, plan: Plan) -> Option<Session> {
    let session = Session::connect(service, plan).ok();
    if session.is_none() {
        report_unreachable(service);
    }
    session
}

fn reachable(service: &Address) -> bool {
    let reachable = Socket::connect(service).is_ok();
    if !reachable {
        report_unreachable(service);
    }
    reachable
}

fn report_unreachable(service: &Address) {
    eprintln!(
        "Could not connect to the traced socket {service}. Ensure traced is running or use tracebox. \
         See https://perfetto.dev/docs/quickstart/linux-tracing."
    );
}
