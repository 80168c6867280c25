//! Recording the events of a closure.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ferretto_engine::lock;
use ferretto_proto::DataSourceConfig;
use ferretto_proto::data_source_config::BufferExhaustedPolicy;

use super::trace::Trace;
use crate::decode::TrackKind;
use crate::session::{Backend, Buffer, RecordingConfig, Session, SessionError, TrackEvents};
use crate::{Backends, Options};

/// The time each step may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Memory shared with the service if nothing was set up before, in KiB.
const MEMORY_KB: u32 = 2048;

/// Most captures at a time. The service makes no more than five recordings for one user; one is
/// left for the test.
const MAX_CAPTURES: usize = 4;

/// The number of captures that are going on.
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
/// Nothing has to be set up, and captures on other threads do not disturb: each is a recording of
/// its own in this process.
///
/// # Panics
///
/// If it cannot be recorded.
pub fn capture(work: impl FnOnce()) -> Trace {
    Capture::new().run(work).1
}

/// Options of a recording of a closure. See [`capture`] for the usual.
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
    /// All track events of this thread.
    pub fn new() -> Self {
        Self {
            events: TrackEvents::all(),
            all_threads: false,
            buffer_kb: 16 * 1024,
        }
    }

    /// The events of all threads of the process, also of tests that run at the same time.
    pub fn all_threads(mut self) -> Self {
        self.all_threads = true;
        self
    }

    /// Only these track events.
    pub fn track_events(mut self, events: TrackEvents) -> Self {
        self.events = events;
        self
    }

    /// Sets how much is recorded at most, in KiB; by default 16 MiB.
    pub fn buffer_kb(mut self, size: u32) -> Self {
        self.buffer_kb = size;
        self
    }

    /// Records `work`, and returns what it did.
    ///
    /// # Panics
    ///
    /// If it cannot be recorded.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> (R, Trace) {
        let _turn = Turn::wait();
        match self.record(work) {
            Ok(captured) => captured,
            Err(error) => panic!("cannot capture what is traced: {error}"),
        }
    }

    fn record<R>(self, work: impl FnOnce() -> R) -> Result<(R, Trace), SessionError> {
        // An earlier set-up stays in force.
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
            // A test is to see everything, rather than to be quick.
            buffer_exhausted_policy: Some(BufferExhaustedPolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP),
            ..Default::default()
        };
        let mut config = RecordingConfig::new()
            .buffer(Buffer::discard(self.buffer_kb))
            .data_source(source);
        // On a loaded machine a stop may take longer than services wait by default. A capture that
        // ended without the producer's confirmation would keep one of the few places for instances.
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

/// The right to capture, until this is dropped.
struct Turn;

impl Turn {
    fn wait() -> Self {
        let going_on = lock(&GOING_ON);
        let is_full = |count: &mut usize| *count >= MAX_CAPTURES;
        let (mut going_on, _) = ENDED
            .wait_timeout_while(going_on, LIMIT, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        // One too many is refused by the service, which shows.
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
