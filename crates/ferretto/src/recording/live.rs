//! Recordings that are written while they run.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::session::{Backend, Buffer, RecordingConfig, Session, SessionError, TrackEvents};

/// The time each call to the service may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The period at which packets are written.
const PERIOD: Duration = Duration::from_millis(500);

/// The size of the buffer that holds packets between two writes, in KiB.
const BUFFER_KB: u32 = 32 * 1024;

/// Records the track events of this process into a file, for as long as the returned value lives.
///
/// ```no_run
/// # fn main() -> Result<(), ferretto::session::SessionError> {
/// let recording = ferretto::record("trace.pftrace")?;
/// {
///     let _slice = ferretto::slice!("app", "work");
/// }
/// recording.finish()?;
/// # Ok(())
/// # }
/// ```
///
/// Nothing else is needed, no daemon and no set-up.
///
/// # Errors
///
/// If the file cannot be created, or the process may not have another thread.
pub fn record(path: impl AsRef<Path>) -> Result<Recording<File>, SessionError> {
    let file = File::create(path).map_err(SessionError::Write)?;
    Recorder::new().into_writer(file)
}

/// A recording to be started. See [`record`] for one with the defaults.
///
/// ```no_run
/// use ferretto::Recorder;
/// use ferretto::session::{RecordingConfig, TrackEvents};
///
/// # fn main() -> Result<(), ferretto::session::SessionError> {
/// let config = RecordingConfig::new().track_events(TrackEvents::only(&["net"]));
/// let recording = Recorder::new().config(config).into_writer(Vec::new())?;
/// // …
/// let trace: Vec<u8> = recording.finish()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is recorded before it is started"]
pub struct Recorder {
    backend: Backend,
    config: Option<RecordingConfig>,
    period: Duration,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// A recording of the track events of this process, in the process.
    pub fn new() -> Self {
        Self {
            backend: Backend::InProcess,
            config: None,
            period: PERIOD,
        }
    }

    /// Sets which service is to record.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets what to record; by default track events. Without buffers in it there is one of 32 MiB,
    /// which has to hold the packets of a period.
    pub fn config(mut self, config: impl Into<RecordingConfig>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Sets how often packets are written; by default twice a second.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Starts recording into `writer`, from a thread of its own.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; [`SessionError::Failed`] if the service does not like the config.
    pub fn into_writer<W>(self, writer: W) -> Result<Recording<W>, SessionError>
    where
        W: Write + Send + 'static,
    {
        let track_events = || RecordingConfig::new().track_events(TrackEvents::new());
        let mut config = self.config.unwrap_or_else(track_events);
        if config.message().buffers.is_empty() {
            config = config.buffer(Buffer::ring(BUFFER_KB));
        }
        self.backend.join(LIMIT)?;
        let session = Session::open(self.backend)?;
        session.set_up(config);
        session.start(LIMIT).wait()?;
        let (stop, stopped) = channel();
        let period = self.period;
        let thread = std::thread::Builder::new()
            .name("ferretto-record".to_owned())
            .spawn(move || copy(&session, writer, period, &stopped))
            .map_err(SessionError::System)?;
        Ok(Recording {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// A recording that is being written. Dropping it ends it; only [`finish`](Self::finish) reports
/// errors.
#[derive(Debug)]
#[must_use = "the recording ends when this is dropped"]
pub struct Recording<W> {
    /// Dropped to stop.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<W, SessionError>>>,
}

impl<W> Recording<W> {
    /// Ends the recording, waits until everything is written, and returns the writer.
    ///
    /// # Errors
    ///
    /// If writing failed, at any time, or the service was lost.
    pub fn finish(mut self) -> Result<W, SessionError> {
        self.end().unwrap_or_else(|| Err(SessionError::over()))
    }

    fn end(&mut self) -> Option<Result<W, SessionError>> {
        crate::flush(LIMIT);
        self.stop = None;
        // Every call it makes has a limit.
        self.thread.take()?.join().ok()
    }
}

impl<W> Drop for Recording<W> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

/// Writes packets until it is told to stop.
fn copy<W: Write + Send + 'static>(
    session: &Session,
    mut writer: W,
    period: Duration,
    stopped: &Receiver<()>,
) -> Result<W, SessionError> {
    while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
        // A producer that does not answer in time does not keep the others' events from being
        // written.
        match session.flush(LIMIT).wait() {
            // It may end by itself, after its duration.
            Ok(()) | Err(SessionError::Refused { .. } | SessionError::NotRunning { .. }) => {}
            Err(error) => return Err(error),
        }
        writer = session.read_into(writer, LIMIT).wait()?;
    }
    session.stop(LIMIT).wait()?;
    session.read_into(writer, LIMIT).wait()
}
