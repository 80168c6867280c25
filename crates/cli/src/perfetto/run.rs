//! A recording over the sockets of the system's service.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use ferretto_ipc::names;
use ferretto_proto::TraceConfig;

use super::FAILURE;
use crate::errors::message;
use crate::session::{Control, End, Plan, Reaction, Session, Signal, Signals};

/// Data sources are waited for as long as `-D` waits.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// What a shell returns for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// How our service begins the error of a trace file that it cannot write.
const WRITE_FAILED: &str = "Failed to write the trace file";

/// A recording that is ready to go.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) config: TraceConfig,
    /// What messages call the output.
    pub(super) name: String,
    /// The output, unless the service makes it.
    pub(super) file: Option<File>,
    /// Its path; `-` for standard output.
    pub(super) path: Option<PathBuf>,
}

/// How a recording stands, for whoever waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Started,
    Failed,
    /// Not all data sources have started in time.
    TimedOut,
}

struct PerfettoControl<F> {
    ttl: Option<Duration>,
    status: F,
    signalled: bool,
}

impl<F: FnMut(Status)> Control for PerfettoControl<F> {
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
        (self.status)(if all {
            Status::Started
        } else {
            Status::TimedOut
        });
        Ok(())
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

/// Records. `status` hears when the data sources have started, and of a failure.
pub(super) fn run(job: Job, mut status: impl FnMut(Status)) -> ExitCode {
    let code = attempt(&job, &mut status).unwrap_or_else(|error| {
        anstream::eprintln!("{}", message(&error));
        FAILURE
    });
    status(if code == 0 {
        Status::Started
    } else {
        Status::Failed
    });
    ExitCode::from(code)
}

fn attempt(job: &Job, status: &mut impl FnMut(Status)) -> Result<u8> {
    let mut signals = Signals::new()?;
    let plan = Plan {
        config: job.config.clone(),
        output: job.file.as_ref().map(File::try_clone).transpose()?,
        start_patience: START_PATIENCE,
    };
    let ttl = plan.duration();
    let connected = names::consumer_address()
        .map_err(anyhow::Error::from)
        .and_then(|address| Ok(Session::connect(&address, plan)?));
    let Ok(mut session) = connected else {
        let socket = names::consumer_socket_name();
        eprintln!(
            "Could not connect to the traced socket {}. Ensure traced is running or use tracebox. \
             See https://perfetto.dev/docs/quickstart/linux-tracing.",
            socket.to_string_lossy()
        );
        return Ok(FAILURE);
    };
    let mut control = PerfettoControl {
        ttl,
        status,
        signalled: false,
    };
    let end = session.run(&mut signals, &mut control)?;
    Ok(finish(job, end))
}

/// Upstream's last words and exit codes.
fn finish(job: &Job, end: End) -> u8 {
    match end {
        End::Complete => {
            wrote(job);
            0
        }
        End::ReadGap => {
            eprintln!("Timed out while waiting for OnTraceData, aborting");
            wrote(job);
            0
        }
        End::Failed(reason) => {
            eprintln!("Service error: {reason}");
            remove_if_empty(job);
            // Upstream's service does not tell of a full disk, so no script relies on 0 here.
            u8::from(reason.starts_with(WRITE_FAILED))
        }
        End::NotBound(reason) => {
            eprintln!("{reason}");
            FAILURE
        }
        End::LostTracing => {
            eprintln!(
                "Service error: EnableTracing IPC request rejected. This is likely due to a loss \
                 of the traced connection"
            );
            eprintln!("Disconnected from the traced service");
            remove_if_empty(job);
            0
        }
        End::LostReading => {
            eprintln!("Disconnected from the traced service");
            FAILURE
        }
        End::Stuck => {
            eprintln!("Timed out while waiting for trace from the service, aborting");
            FAILURE
        }
        End::Aborted => INTERRUPTED,
    }
}

pub(super) fn wrote(job: &Job) {
    if job.config.write_into_file.unwrap_or(false) {
        eprintln!("Trace written into the output file");
        return;
    }
    // As upstream, this is zero for a pipe.
    let size = job
        .file
        .as_ref()
        .and_then(|file| file.metadata().ok())
        .map_or(0, |file| file.len());
    eprintln!("Wrote {size} bytes into {}", job.name);
}

pub(super) fn remove_if_empty(job: &Job) {
    if let (Some(file), Some(path)) = (&job.file, &job.path)
        && path.as_os_str() != "-"
        && file
            .metadata()
            .is_ok_and(|file| file.is_file() && file.len() == 0)
    {
        // It stays as an empty file then.
        let _ = std::fs::remove_file(path);
    }
}
