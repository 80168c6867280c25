//! Capturing the events of a closure.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ferretto_engine::lock;
use ferretto_proto::DataSourceConfig;
use ferretto_proto::data_source_config::BufferExhaustedPolicy;

use super::trace::Trace;
use crate::decode::TrackKind;
use crate::session::{Backend, Buffer, RecordingConfig, Session, SessionError, TrackEvents};
use crate::{Backends, Options};

/// The time limit of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// The size of the shared memory, in KiB, if tracing was not set up before.
const MEMORY_KB: u32 = 2048;

/// The largest number of simultaneous captures. The service allows five sessions per user; one is
/// left for the test.
const MAX_CAPTURES: usize = 4;

/// The number of active captures.
static GOING_ON: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Records the track events that this thread writes in `work`.
///
/// ```
/// let trace = ferretto::testing::capture(|| {
///     let _slice = ferretto::slice!("app", "work", items = 3);
///     ferretto::instant!("app", "halfway");
/// });
/// let work = trace.find("work").unwrap();
/// assert_eq!(work.argument("items"), Some(&3i64.into()));
/// assert_eq!(work.children[0].name, "halfway");
/// ```
///
/// No set-up is needed. Captures on other threads do not interfere: each is a separate in-process
/// recording.
///
/// # Panics
///
/// Panics if the events cannot be recorded.
pub fn capture(work: impl FnOnce()) -> Trace {
    Capture::new().run(work).1
}

/// Options of a capture. [`capture`] uses the defaults.
#[derive(Clone, Debug)]
#[must_use = "nothing is recorded before it runs"]
pub struct Capture {
    events: TrackEvents,
    all_threads: bool,
    buffer_kb: u32,
}

impl Default for Capture {
    fn default() -> Self {
        Self::new()
    }
}

impl Capture {
    /// Captures all track events of this thread.
    pub fn new() -> Self {
        Self {
            events: TrackEvents::all(),
            all_threads: false,
            buffer_kb: 16 * 1024,
        }
    }

    /// Captures the events of all threads of the process, including tests that run at the same
    /// time.
    pub fn all_threads(mut self) -> Self {
        self.all_threads = true;
        self
    }

    /// Restricts the captured track events.
    pub fn track_events(mut self, events: TrackEvents) -> Self {
        self.events = events;
        self
    }

    /// Sets the size of the buffer in KiB; 16 MiB by default.
    pub fn buffer_kb(mut self, size: u32) -> Self {
        self.buffer_kb = size;
        self
    }

    /// Captures the events of `work`, and returns its result and the trace.
    ///
    /// # Panics
    ///
    /// Panics if the events cannot be recorded.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> (R, Trace) {
        let _turn = Turn::wait();
        match self.record(work) {
            Ok(captured) => captured,
            Err(error) => panic!("cannot capture what is traced: {error}"),
        }
    }

    fn record<R>(self, work: impl FnOnce() -> R) -> Result<(R, Trace), SessionError> {
        // An earlier set-up stays in effect.
        Options::new()
            .backends(Backends::IN_PROCESS)
            .memory_kb(MEMORY_KB)
            .track_event_policy_by_config()
            .wait(LIMIT)
            .init()?;
        let session = Session::open(Backend::InProcess)?;
        let source = DataSourceConfig {
            name: Some(b"track_event".to_vec()),
            track_event_config: Some(self.events.encode()),
            // A test needs all events; speed does not matter.
            buffer_exhausted_policy: Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP),
            ..Default::default()
        };
        let mut config = RecordingConfig::new()
            .buffer(Buffer::discard(self.buffer_kb))
            .data_source(source);
        // On a loaded machine a stop may take longer than the service's default limit. A capture
        // that ended without the producer's confirmation would occupy one of the few instances.
        let patience = LIMIT.saturating_sub(LIMIT / 10).as_millis();
        config.message_mut().data_source_stop_timeout_ms = u32::try_from(patience).ok();
        session.set_up(config);
        session.start(LIMIT).wait()?;
        let result = work();
        crate::flush(LIMIT);
        session.flush(LIMIT).wait()?;
        session.stop(LIMIT).wait()?;
        let recorded = session.read(LIMIT).wait()?;
        let own = ferretto_shm::thread_id();
        let all = self.all_threads;
        let wants = |track: &TrackKind| {
            all || matches!(track, TrackKind::Thread { tid, .. } if *tid == own)
        };
        Ok((result, Trace::read_if(&recorded, wants)))
    }
}

/// A permit for one capture, released on drop.
struct Turn;

impl Turn {
    fn wait() -> Self {
        let going_on = lock(&GOING_ON);
        let is_full = |count: &mut usize| *count >= MAX_CAPTURES;
        let (mut going_on, _) = ENDED
            .wait_timeout_while(going_on, LIMIT, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        // If there are too many, the service refuses the capture, which then panics.
        *going_on += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&GOING_ON) -= 1;
        ENDED.notify_one();
    }
}
