//! The flight recorder, which keeps the last events in memory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferretto_proto::TraceConfig;

use super::file::Unfinished;
use super::panic::{self, OnPanic};
use crate::session::{
    Backend, Buffer, RecordingConfig, Session, SessionError, SessionEvent, TrackEvents, TriggerMode,
};

/// The time limit for starting, and for each step of writing a trace.
const LIMIT: Duration = Duration::from_secs(10);

/// The time that a service waits for a trigger. Services allow less than a week; the recording is
/// then started again.
const TRIGGER_LIMIT: Duration = Duration::from_hours(6 * 24);

/// Keeps the last events of the program in memory, and writes them into a file on demand, on a
/// trigger, or when the program panics.
///
/// ```no_run
/// # fn main() -> Result<(), ferretto::session::SessionError> {
/// let recorder = ferretto::FlightRecorder::options()
///     .size_kb(16 * 1024)
///     .on_panic("panic.pftrace")
///     .start()?;
/// // … and whenever something looks wrong:
/// recorder.dump("now.pftrace")?;
/// # Ok(())
/// # }
/// ```
///
/// The recorder continues during and after the writing of a trace. It needs neither a daemon nor
/// any set-up. Each trace is complete: names, tracks and times are repeated often enough that they
/// are in the buffer. Dropping the recorder ends it.
#[derive(Debug)]
pub struct FlightRecorder {
    inner: Arc<Inner>,
}

/// Options of a [`FlightRecorder`]: the events to keep, and when to write them.
#[derive(Debug)]
#[must_use = "nothing is recorded before it is started"]
pub struct FlightRecorderOptions {
    backend: Backend,
    size_kb: u32,
    events: TrackEvents,
    period: Duration,
    config: Option<RecordingConfig>,
    on_panic: Option<PathBuf>,
    on_trigger: Vec<(String, PathBuf)>,
}

#[derive(Debug)]
pub(super) struct Inner {
    backend: Backend,
    session: Session,
    config: TraceConfig,
    /// The unique name by which clones find the session.
    name: String,
    on_panic: Option<PathBuf>,
    on_trigger: Vec<(String, PathBuf)>,
}

impl FlightRecorder {
    /// Returns the default options: 16 MiB of track events of this process, written on demand.
    pub fn options() -> FlightRecorderOptions {
        FlightRecorderOptions {
            backend: Backend::InProcess,
            size_kb: 16 * 1024,
            events: TrackEvents::new(),
            period: Duration::from_millis(250),
            config: None,
            on_panic: None,
            on_trigger: Vec::new(),
        }
    }

    /// Writes the buffer into a file, which replaces an existing one, and which only its owner can
    /// read. The file gets its name when it is complete. In a folder that other users may write to,
    /// their links and pipes are refused.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn dump(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.inner.dump(path.as_ref(), LIMIT)
    }

    /// Writes the buffer into `writer`, and returns the writer.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn dump_into<W: Write + Send + 'static>(&self, writer: W) -> Result<W, SessionError> {
        self.inner.dump_into(writer, LIMIT)
    }
}

impl FlightRecorderOptions {
    /// Sets the service that records. A service outside this process records the events of all
    /// processes; only the events that have left this process's memory survive its end.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets how much memory to use, in KiB.
    pub fn size_kb(mut self, size: u32) -> Self {
        self.size_kb = size;
        self
    }

    /// Sets which track events to keep.
    pub fn track_events(mut self, events: TrackEvents) -> Self {
        self.events = events;
        self
    }

    /// Sets how often names, tracks and times are repeated; by default four times per second. The
    /// buffer is readable from the first repetition on, so the period should be a small part of the
    /// time that the buffer covers.
    pub fn repeat_every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets a config to be recorded instead of track events. A config without buffers gets a ring
    /// buffer of the configured size.
    pub fn config(mut self, config: impl Into<RecordingConfig>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Writes the trace into this file when a thread of this program panics, after the previous
    /// panic hook has run. Each panic overwrites the file.
    pub fn on_panic(mut self, path: impl Into<PathBuf>) -> Self {
        self.on_panic = Some(path.into());
        self
    }

    /// Writes the trace into this file when a trigger of this name is activated by this process, or
    /// by any process if the service is the machine's. Each trigger overwrites the file.
    pub fn on_trigger(mut self, name: &str, path: impl Into<PathBuf>) -> Self {
        self.on_trigger.push((name.to_owned(), path.into()));
        self
    }

    /// Starts recording.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; [`SessionError::Failed`] if the service rejects the config.
    pub fn start(self) -> Result<FlightRecorder, SessionError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flight-recorder-{}-{number}", std::process::id());
        let events = self.events;
        let track_events = || RecordingConfig::new().track_events(events);
        let mut config = self.config.unwrap_or_else(track_events);
        if config.message().buffers.is_empty() {
            config = config.buffer(Buffer::ring(self.size_kb));
        }
        let mut config = config
            .unique_name(&name)
            .clear_incremental_state_every(self.period);
        if !self.on_trigger.is_empty() {
            config = config.trigger_mode(TriggerMode::Clone, TRIGGER_LIMIT);
        }
        for (trigger, _) in &self.on_trigger {
            config = config.trigger(trigger, Duration::ZERO);
        }
        self.backend.join(LIMIT)?;
        let session = Session::open(self.backend.clone())?;
        let config = config.message().clone();
        session.set_up(config.clone());
        session.start(LIMIT).wait()?;
        let inner = Arc::new(Inner {
            backend: self.backend,
            session,
            config,
            name,
            on_panic: self.on_panic,
            on_trigger: self.on_trigger,
        });
        if inner.on_panic.is_some() {
            panic::watch(&inner);
        }
        if !inner.on_trigger.is_empty() {
            watch_triggers(Arc::downgrade(&inner));
        }
        Ok(FlightRecorder { inner })
    }
}

impl OnPanic for Inner {
    fn dump_for_panic(&self, limit: Duration) {
        if let Some(path) = &self.on_panic {
            // There is no caller to report an error to.
            let _ = self.dump(path, limit);
        }
    }
}

impl Inner {
    fn dump_for_trigger(&self, name: &str) {
        for (_, path) in self.on_trigger.iter().filter(|(own, _)| own == name) {
            // The thread that activated the trigger does not wait.
            let _ = self.dump(path, LIMIT);
        }
    }

    fn start_again(&self) {
        self.session.set_up(self.config.clone());
        // Not waited for, since this may run on the session's own thread.
        drop(self.session.start(LIMIT));
    }

    fn dump(&self, path: &Path, limit: Duration) -> Result<(), SessionError> {
        let unfinished = Unfinished::create(path).map_err(SessionError::Write)?;
        let file = unfinished.writer().map_err(SessionError::Write)?;
        self.dump_into(file, limit)?;
        unfinished.finish().map(drop).map_err(SessionError::Write)
    }

    fn dump_into<W>(&self, writer: W, limit: Duration) -> Result<W, SessionError>
    where
        W: Write + Send + 'static,
    {
        // Commits this thread's data; the service reads that of other threads.
        crate::flush(limit);
        let copy = Session::open(self.backend.clone())?;
        copy.clone_named(&self.name, limit).wait()?;
        copy.read_into(writer, limit).wait()
    }
}

/// Writes the trace on each trigger.
fn watch_triggers(recorder: Weak<Inner>) {
    let Some(inner) = recorder.upgrade() else {
        return;
    };
    let next = inner.session.next_event(Duration::MAX);
    drop(inner);
    next.then(move |event| {
        let (Ok(event), Some(inner)) = (event, recorder.upgrade()) else {
            return;
        };
        match event {
            SessionEvent::CloneTrigger { name, .. } => inner.dump_for_trigger(&name),
            // No trigger came within the time limit.
            SessionEvent::Ended { error: None } if inner.config.duration_ms.is_none() => {
                inner.start_again();
            }
            _ => {}
        }
        drop(inner);
        watch_triggers(recorder);
    });
}
