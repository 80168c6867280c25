//! `perfetto --save-for-bugreport` and `--save-all-for-bugreport`: clones of sessions with a
//! `bugreport_score`, in the folder for temporary files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ferretto_client::Consumer;
use ferretto_ipc::address::Address;
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::tracing_service_state::TracingSession;

use super::job::{Job, Work};
use super::open;
use super::outcome::{FAILURE, clone};
use super::service::Provider;
use crate::errors::message;
use crate::session::Task;

/// The name of a copy whose session has no name for it.
const DEFAULT_NAME: &str = "systrace.pftrace";
/// The limit for listing the sessions of the service.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns the path of the copy made by `--save-for-bugreport`.
pub(super) fn path() -> PathBuf {
    std::env::temp_dir().join(DEFAULT_NAME)
}

/// Creates a file in a folder where another user may have created a link of that name.
pub(super) fn create(path: &Path) -> Result<(String, File)> {
    // If it cannot be removed, opening fails with the reason.
    let _ = std::fs::remove_file(path);
    open(path, &[], true)
}

/// A copy to make.
struct Copy {
    session: u64,
    score: i32,
    name: String,
}

/// Clones all sessions with a bug report score. Returns the exit code.
pub(super) fn save_all(service: &Address) -> Result<u8> {
    let state = Consumer::connect(service, LIMIT)
        .and_then(|mut consumer| consumer.query_service_state(LIMIT))
        .context("Failed to list active tracing sessions")?;
    let copies = copies(&state.tracing_sessions);
    if copies.is_empty() {
        eprintln!("No tracing sessions eligible for bugreport were found.");
        return Ok(0);
    }
    // All sessions are cloned before the first clone is read, so that they end at the same time.
    let all_cloned = Barrier::new(copies.len());
    let done = thread::scope(|scope| {
        let (mut threads, mut others) = (Vec::new(), Vec::new());
        for copy in &copies {
            let arrival = Arrival(Some(&all_cloned));
            let work = move || save(service, copy, arrival);
            match thread::Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(_) => others.push(copy),
            }
        }
        // Sessions for which no thread can be started are saved one after the other.
        let others = others
            .into_iter()
            .map(|copy| save(service, copy, Arrival(None)));
        let others = others.max();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(FAILURE));
        done.chain(others).max()
    });
    Ok(done.unwrap_or(0))
}

/// The point that threads wait for one another at, except for those that leave.
struct Barrier {
    missing: Mutex<usize>,
    complete: Condvar,
}

impl Barrier {
    fn new(threads: usize) -> Self {
        Self {
            missing: Mutex::new(threads),
            complete: Condvar::new(),
        }
    }

    /// Counts a thread that does not wait.
    fn leave(&self) -> MutexGuard<'_, usize> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing = missing.saturating_sub(1);
        self.complete.notify_all();
        missing
    }

    fn wait(&self) {
        let waited = self
            .complete
            .wait_while(self.leave(), |missing| *missing > 0);
        drop(waited);
    }
}

/// One arrival at the barrier. Its thread leaves the barrier when this is dropped, also if the
/// thread cannot be started.
struct Arrival<'a>(Option<&'a Barrier>);

impl Arrival<'_> {
    fn wait(&mut self) {
        if let Some(barrier) = self.0.take() {
            barrier.wait();
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if let Some(barrier) = self.0.take() {
            drop(barrier.leave());
        }
    }
}

fn save(service: &Address, copy: &Copy, mut arrival: Arrival<'_>) -> u8 {
    let path = std::env::temp_dir().join(&copy.name);
    let (session, score) = (copy.session, copy.score);
    let shown = path.to_string_lossy();
    let shown = ferretto_text::terminal::shown(&shown);
    eprintln!("Cloning tracing session {session} with score {score} into {shown}");
    let request = Task::Clone(Box::new(request(session)));
    let done = create(&path).and_then(|opened| {
        let job = Job::new(Work::Session(request), Provider::System).into(&path, opened);
        clone(&job, service, || arrival.wait())
    });
    done.unwrap_or_else(|error| {
        eprintln!("{}", message(&error));
        FAILURE
    })
}

/// Returns a request for a clone for bug reports, without the session's filter.
pub(super) fn request(session: u64) -> CloneSessionRequest {
    CloneSessionRequest {
        selector: Some(Selector::SessionId(session)),
        skip_trace_filter: Some(true),
        for_bugreport: Some(true),
        ..Default::default()
    }
}

/// Returns the copies to make, the highest score first, each with its own file.
fn copies(sessions: &[TracingSession]) -> Vec<Copy> {
    let score = |session: &TracingSession| session.bugreport_score.unwrap_or(0);
    let mut eligible: Vec<_> = sessions
        .iter()
        .filter(|session| score(session) > 0 && session.is_started.unwrap_or(false))
        .collect();
    eligible.sort_by_key(|session| std::cmp::Reverse(score(session)));
    let mut copies: Vec<Copy> = Vec::new();
    for session in eligible {
        let preferred = file_name(session);
        let mut names = (0..).map(|number| numbered(&preferred, number));
        let name = names.find(|name| copies.iter().all(|other| other.name != *name));
        copies.push(Copy {
            session: session.id.unwrap_or(0),
            score: score(session),
            name: name.unwrap_or(preferred),
        });
    }
    copies
}

/// Returns the file name in the session's config. Our service refuses names with folders, but
/// another service may not.
fn file_name(session: &TracingSession) -> String {
    let name = session.bugreport_filename.as_deref().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    match Path::new(&name).file_name() {
        Some(only) if only == name.as_str() => name,
        _ => DEFAULT_NAME.to_owned(),
    }
}

/// Returns the names `a.pftrace`, `a_1.pftrace`, `a_2.pftrace` and so on.
fn numbered(name: &str, number: usize) -> String {
    match (number, name.rsplit_once('.')) {
        (0, _) => name.to_owned(),
        (_, Some((stem, extension))) => format!("{stem}_{number}.{extension}"),
        (_, None) => format!("{name}_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, score: i32, name: &str) -> TracingSession {
        TracingSession {
            id: Some(id),
            bugreport_score: Some(score),
            bugreport_filename: Some(name.into()),
            is_started: Some(true),
            ..Default::default()
        }
    }

    #[test]
    fn threads_that_cannot_be_started_leave_the_barrier() {
        let barrier = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                let mut arrival = Arrival(Some(&barrier));
                scope.spawn(move || arrival.wait());
            }
            let arrival = Arrival(Some(&barrier));
            // No thread can have a stack of this size.
            let builder = thread::Builder::new().stack_size(1 << 62);
            assert!(builder.spawn_scoped(scope, move || drop(arrival)).is_err());
        });
    }

    #[test]
    fn copies_are_sorted_by_score_and_have_different_names() {
        let mut waiting = session(5, 9, "waiting");
        waiting.is_started = Some(false);
        let sessions = [
            session(1, 1, ""),
            session(2, 0, "none"),
            session(3, 7, "a.b.trace"),
            session(4, 3, "a.b.trace"),
            waiting,
            session(6, 2, "../etc"),
            session(7, 1, "plain"),
            session(8, 1, "plain"),
        ];
        let found: Vec<_> = copies(&sessions)
            .into_iter()
            .map(|copy| (copy.session, copy.name))
            .collect();
        let expected = [
            (3, "a.b.trace"),
            (4, "a.b_1.trace"),
            (6, "systrace.pftrace"),
            (1, "systrace_1.pftrace"),
            (7, "plain"),
            (8, "plain_1"),
        ];
        assert_eq!(found, expected.map(|(id, name)| (id, name.to_owned())));
    }
}
