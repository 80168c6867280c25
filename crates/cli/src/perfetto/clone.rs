//! `perfetto --clone`: a copy of what a running session holds.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use ferretto_client::Consumer;
use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;

use super::run::{Job, remove_if_empty, wrote};

/// How long the service may take to connect, and between two parts of the trace.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to collect what producers hold.
const CLONE_PATIENCE: Duration = Duration::from_secs(30);
/// `Trace.packet`.
const PACKET: u32 = 1;

/// Which session is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Id(u64),
    Name(String),
}

/// A copy of a session to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CloneOptions {
    pub(super) source: Source,
    /// The session's filter is not applied.
    pub(super) for_bugreport: bool,
    pub(super) out: PathBuf,
    pub(super) no_clobber: bool,
}

/// Clones a session into `file`.
pub(super) fn run(options: &CloneOptions, job: &Job, file: &File) -> Result<ExitCode> {
    let mut consumer = Consumer::connect_default(PATIENCE)?;
    let request = Request::CloneSession(CloneSessionRequest {
        selector: Some(match &options.source {
            Source::Id(id) => Selector::SessionId(*id),
            Source::Name(name) => Selector::UniqueSessionName(name.clone().into_bytes()),
        }),
        skip_trace_filter: Some(options.for_bugreport),
        for_bugreport: Some(options.for_bugreport),
        ..Default::default()
    });
    let fd = OwnedFd::from(file.try_clone()?);
    let reply = consumer.call(&request, Some(fd), CLONE_PATIENCE)?;
    let reply = match reply.result {
        Ok(Reply::CloneSession(reply)) => reply,
        _ => bail!("Service error: CloneSession IPC not supported"),
    };
    if reply.success != Some(true) {
        let source = match &options.source {
            Source::Id(id) => id.to_string(),
            Source::Name(name) => format!("\"{name}\""),
        };
        let reason = reply.error.unwrap_or_default();
        let reason = String::from_utf8_lossy(&reason);
        eprintln!("Service error: Failed to clone tracing session {source}: {reason}");
        remove_if_empty(job);
        return Ok(ExitCode::SUCCESS);
    }
    if reply.was_write_into_file != Some(true) {
        let mut out = std::io::BufWriter::new(file);
        consumer.read_buffers(PATIENCE, |packet| {
            out.write_all(&ferretto_wire::encode(|trace| trace.bytes(PACKET, packet)))
        })?;
        out.flush()?;
    }
    wrote(job);
    Ok(ExitCode::SUCCESS)
}
