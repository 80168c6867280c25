//! Starts the background thread, in a process and in its forked children.

use std::io;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use ferretto_shm::fork::{self, PerProcess};

use super::backend::{self, Backend, BackendKind};
use super::connections::Progress;
use super::driver::Driver;
use super::exit;
use super::point;
use super::primitive::lock;
use super::queue::{self, Command, Synced};
use super::source::kinds;
use super::startup::StartupRequest;

/// The longest time that the first trace point of a forked child waits until the recordings of its
/// parent continue there, which takes no round trip.
const CONTINUE_LIMIT: Duration = Duration::from_secs(5);

/// Set once the background thread was started; locked by the thread that starts it.
static STARTED: PerProcess<Mutex<bool>> = PerProcess::new();

/// Lets the services of `backends` record this process. Only the first backend of each kind
/// applies.
///
/// # Errors
///
/// Fails if the system refuses a thread or descriptors.
pub fn start(backends: impl IntoIterator<Item = Backend>) -> io::Result<()> {
    revive_with(false);
    fork::watch()?;
    let mut started = lock(STARTED.get_or_init(Mutex::default));
    start_thread(&mut started)?;
    for backend in backends {
        if backend::all()
            .iter()
            .all(|known| known.kind != backend.kind)
        {
            connect(&backend, false)?;
            exit::prepare();
            backend::add(backend);
        }
    }
    Ok(())
}

/// In a forked child whose parent took part in recordings, takes part as a process of its own.
/// Otherwise does nothing.
///
/// A trace point calls this if it does not know whether a recording runs. The recordings of the
/// parent continue in this process: when this returns, its events are kept until the services
/// confirm that.
#[cold]
pub fn revive() {
    revive_with(true);
}

fn revive_with(is_late: bool) {
    if !queue::is_undecided() {
        return;
    }
    let mut started = lock(STARTED.get_or_init(Mutex::default));
    // Another thread may have done it meanwhile.
    if !queue::is_undecided() {
        return;
    }
    let queue = queue::open_in_child();
    // Before recordings can start, and while every trace point waits or is off.
    kinds().iter().for_each(|kind| kind.source().forked());
    point::request_collection();
    // Without a thread the child is not recorded, and its trace points do nothing.
    let is_started = start_thread(&mut started).is_ok();
    for backend in backend::all() {
        if backend.is_for_children() {
            let _ = connect(backend, is_late);
        }
    }
    if is_started {
        let (sender, receiver) = mpsc::channel();
        queue.send(Command::Continue(sender));
        // The sender is dropped, not used.
        let _ = receiver.recv_timeout(CONTINUE_LIMIT);
    }
    queue.decided();
    kinds().iter().for_each(|kind| kind.source().decided());
}

/// Returns true in a forked child that has not checked yet if a service wants to record it.
pub fn is_undecided() -> bool {
    queue::is_undecided()
}

/// Returns true if this process takes part in recordings.
pub fn is_started() -> bool {
    queue::queue().is_some()
}

fn start_thread(started: &mut bool) -> io::Result<()> {
    if *started {
        return Ok(());
    }
    let queue = queue::open();
    let wake = queue.wake_fd()?;
    std::thread::Builder::new()
        .name("ferretto".to_owned())
        .spawn(move || {
            queue.serve_here();
            Driver::new(queue, wake).run();
        })?;
    *started = true;
    Ok(())
}

fn connect(backend: &Backend, is_late: bool) -> io::Result<()> {
    let producer = backend.producer()?;
    let queue = queue::open();
    let progress = if producer.has_address() {
        Progress::Connecting
    } else {
        // The program does not wait for the first attempt.
        Progress::Absent
    };
    let is_late = is_late && progress == Progress::Connecting;
    queue.connections.add(progress, backend.patience, is_late);
    queue.farewell.be_patient(backend.farewell_patience());
    queue.send(Command::Connect(backend.kind, Box::new(producer)));
    Ok(())
}

/// Waits until running recordings include everything registered, at most for `limit`, or for each
/// service's [patience](Backend::patience), and not for absent services. Returns true if there is a
/// service.
///
/// Does nothing on the background thread, which calls data sources.
pub fn wait_for_recordings(limit: Option<Duration>) -> bool {
    let Some(queue) = queue::queue() else {
        return false;
    };
    if queue.is_served_here() {
        return false;
    }
    let Some(number) = queue.connections.number(limit) else {
        return false;
    };
    queue.send(Command::RoundTrip(number));
    let is_there = queue.connections.wait(number, limit);
    if queue.connections.is_any_late() {
        queue.farewell.set_busy(true);
    }
    is_there
}

/// In a forked child, waits until the recordings that continue there have reached their services,
/// at most for each service's [patience](Backend::patience). Before that, a flush sends nothing.
pub fn wait_for_continued() {
    if fork::forks() != 0
        && let Some(patience) = queue::queue().and_then(|q| q.connections.patience_for_first())
    {
        wait_for_recordings(Some(patience));
    }
}

/// Waits until all services have processed everything sent before, at most for `limit`. Returns
/// true if there is a service and all have. Services to which a connection is being made are
/// waited for.
pub fn sync(limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    if queue::queue().is_some_and(|queue| queue.connections.patience_for_first().is_some()) {
        wait_for_recordings(Some(limit));
    }
    let (sender, receiver) = mpsc::channel();
    if !queue::send(Command::Sync(sender)) {
        return false;
    }
    let (mut asked, mut answered) = (None, 0);
    while asked != Some(answered) {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(Synced::Asked(count)) => asked = Some(count),
            Ok(Synced::Answered) => answered += 1,
            Err(_) => return false,
        }
    }
    answered != 0
}

/// Activates triggers: at once on connected services, and on those that connect before `deadline`.
/// Returns true if this process takes part in recordings.
pub fn trigger(names: &[&str], deadline: Instant) -> bool {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    queue::send(Command::Trigger(names, deadline))
}

/// Returns the kinds of services with which this process was set up.
pub fn backends() -> Vec<BackendKind> {
    backend::all().iter().map(|backend| backend.kind).collect()
}

/// Starts startup tracing. Returns true if this process takes part in recordings.
pub fn begin_startup(request: StartupRequest) -> bool {
    queue::send(Command::Startup(Box::new(request)))
}

/// Ends startup tracing that no service has adopted yet.
pub fn abort_startup(number: u64) {
    queue::send(Command::AbortStartup(number));
}
