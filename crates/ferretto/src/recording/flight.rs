//! The last moments, kept in memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferretto_proto::TraceConfig;

use super::panic::{self, OnPanic};
use crate::session::{
    Backend, Buffer, RecordingConfig, Session, SessionError, SessionEvent, TrackEvents, TriggerMode,
};

/// The time that starting, and each step of writing a trace, may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The time a service waits for a trigger. It allows less than a week; the recording is then
/// started again.
const TRIGGER_LIMIT: Duration = Duration::from_hours(6 * 24);

/// Keeps the last events of the program, and writes them into a file when it is told to, when a
/// trigger comes, or when the program panics.
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
/// It goes on while and after a trace is written. Nothing else is needed, no daemon and no set-up.
/// Each trace is complete in itself: names, tracks and times are repeated so often that they
/// are there wherever the memory begins. Dropping it ends it.
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
    /// By which copies find the session.
    name: String,
    on_panic: Option<PathBuf>,
    on_trigger: Vec<(String, PathBuf)>,
}

impl FlightRecorder {
    /// One that keeps 16 MiB of track events in this process, and writes them when it is told to.
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

    /// Writes the ring into a file, which is complete from the moment it has this name, and
    /// replaces one that has it.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn dump(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.inner.dump(path.as_ref(), LIMIT)
    }

    /// Writes the ring into `writer`, and returns that.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn dump_into<W: Write + Send + 'static>(&self, writer: W) -> Result<W, SessionError> {
        self.inner.dump_into(writer, LIMIT)
    }
}

impl FlightRecorderOptions {
    /// Sets which service is to record. If it is not in this process it keeps all processes'
    /// events, and survives this one only without its memory.
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

    /// Sets how often names, tracks and times are repeated; by default four times a second. The
    /// ring can be read from the first repetition on, so this should be a small part of the time
    /// that fits into memory.
    pub fn repeat_every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets what to record instead of track events, into buffers that forget the oldest.
    pub fn config(mut self, config: impl Into<RecordingConfig>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Writes the trace into this file when a thread of this program panics, after the previous
    /// panic hook has run. Each panic replaces the file.
    pub fn on_panic(mut self, path: impl Into<PathBuf>) -> Self {
        self.on_panic = Some(path.into());
        self
    }

    /// Writes the trace into this file when a trigger of this name is activated, by this process
    /// or, if the service is the machine's, any other. Each replaces the file.
    pub fn on_trigger(mut self, name: &str, path: impl Into<PathBuf>) -> Self {
        self.on_trigger.push((name.to_owned(), path.into()));
        self
    }

    /// Starts recording.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; [`SessionError::Failed`] if the service does not like the config.
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
            // Nobody is left to be told.
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
        // Nobody waits for it, least of all the session's own thread.
        drop(self.session.start(LIMIT));
    }

    fn dump(&self, path: &Path, limit: Duration) -> Result<(), SessionError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".part");
        let file = File::create(&unfinished).map_err(SessionError::Write)?;
        let result = self.dump_into(file, limit);
        let result = result.and_then(|file| {
            drop(file);
            fs::rename(&unfinished, path).map_err(SessionError::Write)
        });
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        result
    }

    fn dump_into<W>(&self, writer: W, limit: Duration) -> Result<W, SessionError>
    where
        W: Write + Send + 'static,
    {
        // Hands over this thread's data; the service fetches that of other threads.
        crate::flush(limit);
        let copy = Session::open(self.backend.clone())?;
        copy.clone_named(&self.name, limit).wait()?;
        copy.read_into(writer, limit).wait()
    }
}

/// Writes the trace whenever a trigger asks for it.
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
            // No trigger came in all that time.
            SessionEvent::Ended { error: None } if inner.config.duration_ms.is_none() => {
                inner.start_again();
            }
            _ => {}
        }
        drop(inner);
        watch_triggers(recorder);
    });
}
