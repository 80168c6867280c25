//! Snapshots, which triggers request: clones of the running session, each over another connection
//! and into another file.
//!
//! One thread makes them one after the other, so that the service has at most one copy of the
//! buffers for this recording. Triggers that fire in the meantime wait. The session is freed only
//! after the last snapshot.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::observable_events::CloneTriggerHit;

use crate::session::Signals;

/// The largest number of waiting snapshots.
const MAX_WAITING: usize = 1024;

/// A snapshot to make.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The request to the service.
    pub(crate) request: CloneSessionRequest,
    /// The path of its file.
    pub(crate) out: PathBuf,
}

/// Makes a snapshot, and reports the result.
type Maker = Box<dyn FnMut(Snapshot) + Send>;

/// The snapshots of one recording.
pub(crate) struct Snapshots {
    /// The path of the recording itself, to which a number is added.
    out: PathBuf,
    no_clobber: bool,
    count: u64,
    /// The maker, until the worker has it.
    make: Option<Maker>,
    worker: Option<Worker>,
}

struct Worker {
    queue: SyncSender<Snapshot>,
    thread: JoinHandle<()>,
    /// Closes when the thread ends.
    ended: UnixStream,
}

impl Snapshots {
    /// Returns the snapshots of the recording `out`, which `make` makes in another thread. With
    /// `no_clobber`, existing files are not overwritten.
    pub(crate) fn new(
        out: PathBuf,
        no_clobber: bool,
        make: impl FnMut(Snapshot) + Send + 'static,
    ) -> Self {
        Self {
            out,
            no_clobber,
            count: 0,
            make: Some(Box::new(make)),
            worker: None,
        }
    }

    /// Queues a snapshot that a trigger requests.
    pub(crate) fn add(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        self.queue(request(hit))
    }

    /// Queues a snapshot of the session with this name. The reason is recorded in it as a trigger.
    pub(crate) fn add_of(&mut self, session: &str, reason: &str) -> Result<()> {
        self.queue(CloneSessionRequest {
            selector: Some(Selector::UniqueSessionName(session.into())),
            clone_trigger_name: Some(reason.into()),
            ..Default::default()
        })
    }

    fn queue(&mut self, request: CloneSessionRequest) -> Result<()> {
        let trigger = request.clone_trigger_name.clone().unwrap_or_default();
        let snapshot = Snapshot {
            request,
            out: self.next_path(),
        };
        if let Some(make) = self.make.take() {
            self.worker = Some(start(make)?);
        }
        let Some(worker) = &self.worker else {
            return Ok(());
        };
        if worker.queue.try_send(snapshot).is_err() {
            let trigger = ferretto_text::terminal::shown_bytes(&trigger);
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

    /// Waits for all snapshots. Returns true if they are complete; a second signal ends the wait.
    pub(crate) fn finish(&mut self, signals: &mut Signals, signalled: bool) -> bool {
        let Some(worker) = self.worker.take() else {
            return true;
        };
        drop(worker.queue);
        let mut signalled = signalled;
        while !signals.wait_or(&worker.ended, None) {
            for signal in signals.take() {
                if signal.ends() && std::mem::replace(&mut signalled, true) {
                    return false;
                }
            }
        }
        worker.thread.join().is_ok()
    }
}

fn start(make: Maker) -> Result<Worker> {
    let (queue, snapshots) = sync_channel(MAX_WAITING);
    let (ended, ending) = UnixStream::pair().context("cannot create a socket")?;
    let thread = std::thread::Builder::new()
        .name("snapshots".to_owned())
        .spawn(move || {
            // Closed with the thread.
            let _ending = ending;
            snapshots.iter().for_each(make);
        })
        .context("cannot start a thread")?;
    Ok(Worker {
        queue,
        thread,
        ended,
    })
}

/// Returns the clone that a trigger requests. The service records the trigger in it.
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
