//! Recordings that are written while they run.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::file::Unfinished;
use crate::session::{Backend, Buffer, RecordingConfig, Session, SessionError, TrackEvents};

/// The time limit of each call to the service.
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
/// No daemon and no other set-up are needed.
///
/// The file replaces an existing one, and only its owner can read it. In a folder that other users
/// may write to, their links and pipes are refused.
///
/// # Errors
///
/// Fails if the file cannot be created, or if the process cannot start a thread.
pub fn record(path: impl AsRef<Path>) -> Result<Recording<File>, SessionError> {
    let file = Unfinished::create(path.as_ref()).and_then(Unfinished::finish);
    Recorder::new().into_writer(file.map_err(SessionError::Write)?)
}

/// Options of a recording. [`record`] uses the defaults.
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
    /// Creates options for an in-process recording of the track events of this process.
    pub fn new() -> Self {
        Self {
            backend: Backend::InProcess,
            config: None,
            period: PERIOD,
        }
    }

    /// Sets the service that records.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sets the config; by default it records track events. A config without buffers gets one of 32
    /// MiB, which must hold the packets of one period.
    pub fn config(mut self, config: impl Into<RecordingConfig>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Sets how often packets are written; by default twice a second.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Starts recording into `writer`, on a separate thread.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; [`SessionError::Failed`] if the service rejects the config.
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

/// A running recording. Dropping it ends it; only [`finish`](Self::finish) reports errors.
#[derive(Debug)]
#[must_use = "the recording ends when this is dropped"]
pub struct Recording<W> {
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<W, SessionError>>>,
}

impl<W> Recording<W> {
    /// Ends the recording, waits until everything is written, and returns the writer.
    ///
    /// # Errors
    ///
    /// Fails if writing failed at any time, or if the connection to the service was lost.
    pub fn finish(mut self) -> Result<W, SessionError> {
        self.end().unwrap_or_else(|| Err(SessionError::over()))
    }

    fn end(&mut self) -> Option<Result<W, SessionError>> {
        crate::flush(LIMIT);
        self.stop = None;
        // Terminates, since every call has a time limit.
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

/// Writes packets until the recording is stopped.
fn copy<W: Write + Send + 'static>(
    session: &Session,
    mut writer: W,
    period: Duration,
    stopped: &Receiver<()>,
) -> Result<W, SessionError> {
    while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
        // The events of other producers are written even if one does not respond in time.
        match session.flush(LIMIT).wait() {
            // The recording may end by itself, after its duration.
            Ok(()) | Err(SessionError::Refused { .. } | SessionError::NotRunning { .. }) => {}
            Err(error) => return Err(error),
        }
        writer = session.read_into(writer, LIMIT).wait()?;
    }
    session.stop(LIMIT).wait()?;
    session.read_into(writer, LIMIT).wait()
}
