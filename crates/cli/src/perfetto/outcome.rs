//! The outcome of a job, with upstream's messages and exit codes.

use anyhow::Result;
use ferretto_ipc::address::Address;
use ferretto_text::terminal::shown;

use super::job::{Job, Work, session_name};
use crate::session::{End, Task, Then, clone_session};

/// The exit code of errors.
pub(super) const FAILURE: u8 = 1;
/// The environment variable for exiting with [`FAILURE`] if the service fails.
const STRICT_VARIABLE: &str = "FERRETTO_STRICT_EXIT";
/// The exit code of `--attach` and `--is_detached` without such a session.
const NO_SESSION: u8 = 2;
/// The exit code of a program that Ctrl-C ended, as in shells.
pub(super) const INTERRUPTED: u8 = 130;

/// The prefix of our service's error for a trace file that it cannot write.
const WRITE_FAILED: &str = "Failed to write the trace file";

/// Clones a session into the job's file. `cloned` is called when the service has made the copy,
/// before it is read. Returns the exit code.
pub(super) fn clone(job: &Job, service: &Address, cloned: impl FnMut()) -> Result<u8> {
    let (Work::Session(Task::Clone(request)), Some(file)) = (&job.work, &job.file) else {
        return Ok(FAILURE);
    };
    let end = clone_session(service, (**request).clone(), file, cloned)?;
    Ok(finish(job, end))
}

/// Returns true if the exit code also reports failures for which upstream returns 0.
pub(super) fn is_strict() -> bool {
    std::env::var_os(STRICT_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Prints upstream's last message for the end of a session. Returns the exit code.
pub(super) fn finish(job: &Job, end: End) -> u8 {
    match end {
        End::Complete => {
            wrote(job);
            0
        }
        End::ReadGap => {
            eprintln!("Timed out while waiting for OnTraceData, aborting");
            wrote(job);
            u8::from(is_strict())
        }
        End::Failed(reason) => {
            eprintln!("Service error: {}", shown(&failure(job, &reason)));
            remove_if_empty(job);
            // Upstream's service does not report a full disk, so no script relies on 0 here.
            u8::from(is_strict() || reason.starts_with(WRITE_FAILED))
        }
        End::NotBound(reason) => {
            eprintln!("{reason}");
            FAILURE
        }
        End::LostTracing => {
            let reason = match job.work {
                Work::Session(Task::Clone(_)) => "CloneSession IPC not supported",
                _ => {
                    "EnableTracing IPC request rejected. This is likely due to a loss of the \
                     traced connection"
                }
            };
            eprintln!("Service error: {}", shown(&failure(job, reason)));
            eprintln!("Disconnected from the traced service");
            remove_if_empty(job);
            u8::from(is_strict())
        }
        End::Detached => 0,
        End::DetachRefused(reason) => {
            match reason {
                Some(reason) => {
                    eprintln!("Service error: {}\nSession detach failed", shown(&reason));
                }
                None => eprintln!("Session detach failed: another session may have this key"),
            }
            remove_if_empty(job);
            FAILURE
        }
        End::AttachRefused => {
            if !matches!(
                job.work,
                Work::Session(Task::Attach {
                    then: Then::Leave,
                    ..
                })
            ) {
                eprintln!("Session re-attach failed. Check service logs for details");
            }
            NO_SESSION
        }
        End::AttachWithoutFile => {
            eprintln!(
                "This session does not write into a file, so --attach cannot read its trace. It continues."
            );
            FAILURE
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

/// Returns the error of the service in upstream's words.
fn failure(job: &Job, reason: &str) -> String {
    match &job.work {
        Work::Session(Task::Clone(request)) => {
            let session = session_name(request);
            format!("Failed to clone tracing session {session}: {reason}")
        }
        _ => reason.to_owned(),
    }
}

fn wrote(job: &Job) {
    let attached = matches!(job.work, Work::Session(Task::Attach { .. }));
    if attached || job.config.write_into_file.unwrap_or(false) {
        eprintln!("Trace written into the output file");
        return;
    }
    // As in upstream, the size is zero for a pipe.
    let size = job
        .file
        .as_ref()
        .and_then(|file| file.metadata().ok())
        .map_or(0, |file| file.len());
    eprintln!("Wrote {size} bytes into {}", job.name);
}

fn remove_if_empty(job: &Job) {
    if let (Some(file), Some(path)) = (&job.file, &job.path)
        && path.as_os_str() != "-"
        && file
            .metadata()
            .is_ok_and(|file| file.is_file() && file.len() == 0)
    {
        // If that fails, the empty file remains.
        let _ = std::fs::remove_file(path);
    }
}
