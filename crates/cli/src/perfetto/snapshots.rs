//! Snapshots that triggers ask for: each a clone of the running session, over a connection of its own, into a file of
//! its own.
//!
//! One thread makes them one after the other, so that the service never holds more than one copy of the buffers for
//! this recording; what fires meanwhile waits. The session is given back only after the last one.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use ferretto_ipc::address::Address;
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::observable_events::CloneTriggerHit;

use super::job::{Job, Work};
use super::open;
use super::run::clone;
use super::service::Provider;
use crate::errors::message;
use crate::session::{Signals, Task};

/// Most snapshots that wait.
const MAX_WAITING: usize = 1024;

/// Makes the snapshots of one recording.
#[derive(Debug)]
pub(super) struct Snapshots {
    service: Address,
    /// Path of the recording itself, to which a number is added.
    out: PathBuf,
    no_clobber: bool,
    count: u64,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    wanted: SyncSender<Snapshot>,
    thread: JoinHandle<()>,
    /// Closes when the thread ends.
    ended: UnixStream,
}

#[derive(Debug)]
struct Snapshot {
    request: CloneSessionRequest,
    out: PathBuf,
}

impl Snapshots {
    pub(super) fn new(service: Address, out: PathBuf, no_clobber: bool) -> Self {
        Self {
            service,
            out,
            no_clobber,
            count: 0,
            worker: None,
        }
    }

    /// Makes one, in time.
    pub(super) fn add(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        let snapshot = Snapshot {
            request: request(hit),
            out: self.next_path(),
        };
        let worker = match &self.worker {
            Some(worker) => worker,
            None => self
                .worker
                .insert(start(self.service.clone(), self.no_clobber)?),
        };
        if worker.wanted.try_send(snapshot).is_err() {
            let trigger = hit.trigger_name.as_deref().unwrap_or_default();
            let trigger = String::from_utf8_lossy(trigger);
            eprintln!("Too many snapshots are waiting; none is made for the trigger {trigger}");
        }
        Ok(())
    }

    fn next_path(&mut self) -> PathBuf {
        loop {
            let mut path = OsString::from(&self.out);
            path.push(format!(".{}", self.count));
            self.count += 1;
            let path = PathBuf::from(path);
            if !self.no_clobber || !path.exists() {
                return path;
            }
        }
    }

    /// Waits for those that are under way. Returns whether they are complete: a second signal ends the wait.
    pub(super) fn finish(&mut self, signals: &mut Signals, signalled: bool) -> bool {
        let Some(worker) = self.worker.take() else {
            return true;
        };
        drop(worker.wanted);
        let mut signalled = signalled;
        while !signals.wait_or(&worker.ended) {
            for signal in signals.take() {
                if signal.ends() && std::mem::replace(&mut signalled, true) {
                    return false;
                }
            }
        }
        worker.thread.join().is_ok()
    }
}

fn start(service: Address, no_clobber: bool) -> Result<Worker> {
    let (wanted, snapshots) = sync_channel(MAX_WAITING);
    let (ended, ending) = UnixStream::pair().context("cannot make a socket")?;
    let thread = std::thread::Builder::new()
        .name("snapshots".to_owned())
        .spawn(move || {
            // Closed with the thread.
            let _ending = ending;
            make(&service, &snapshots, no_clobber);
        })
        .context("cannot start a thread")?;
    Ok(Worker {
        wanted,
        thread,
        ended,
    })
}

fn make(service: &Address, snapshots: &Receiver<Snapshot>, no_clobber: bool) {
    for Snapshot { request, out } in snapshots {
        let task = Task::Clone(Box::new(request));
        let done = open(&out, no_clobber).and_then(|opened| {
            let job = Job::new(Work::Session(task), Provider::System).into(&out, opened);
            clone(&job, service, || ())
        });
        match done {
            Ok(0) => {}
            Ok(code) => eprintln!("The snapshot {} failed ({code})", out.display()),
            Err(error) => eprintln!("The snapshot {} failed: {}", out.display(), message(&error)),
        }
    }
}

/// The clone that a trigger asks for; the service notes in it which trigger that was.
fn request(hit: &CloneTriggerHit) -> CloneSessionRequest {
    CloneSessionRequest {
        selector: Some(Selector::SessionId(
            hit.tracing_session_id.unwrap_or(0) as u64
        )),
        skip_trace_filter: Some(false),
        for_bugreport: Some(false),
        clone_trigger_name: hit.trigger_name.clone(),
        clone_trigger_producer_name: hit.producer_name.clone(),
        clone_trigger_trusted_producer_uid: hit.producer_uid.map(|uid| uid as i32),
        clone_trigger_boot_time_ns: hit.boot_time_ns,
        clone_trigger_delay_ms: hit.trigger_delay_ms,
        ..Default::default()
    }
}
