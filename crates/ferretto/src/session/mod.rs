//! Recordings that the program controls.
//!
//! ```no_run
//! use std::time::Duration;
//! use ferretto::session::{RecordingConfig, Session, TrackEvents};
//!
//! # fn work() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limit = Duration::from_secs(10);
//! let session = Session::open(Default::default())?;
//! session.set_up(RecordingConfig::new().track_events(TrackEvents::new()));
//! session.start(limit).wait()?;
//! work();
//! session.stop(limit).wait()?;
//! std::fs::write("trace.pftrace", session.read(limit).wait()?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Each call returns a [`Call`]: `.wait()` for the answer, `.await` it on any executor, or give it
//! a callback.

mod answer;
mod backend;
mod call;
mod config;
mod driver;
mod error;
mod event;
mod inbox;
mod policy;
mod track_events;

pub use backend::Backend;
pub use call::Call;
pub use config::{Buffer, Compression, RecordingConfig, TriggerMode};
pub use error::SessionError;
pub use event::SessionEvent;
pub use ferretto_client::ClonedSession;
pub use ferretto_engine::BackendKind;
pub use policy::{PolicyRequest, set_policy};
pub use track_events::TrackEvents;

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use ferretto_client::recording::{self, Needs, explicit_flush};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::{
    ChangeTraceConfigRequest, CloneSessionRequest, TraceStats, TracingServiceCapabilities,
    TracingServiceState,
};

use self::answer::{Answer, Single, Trace};
use self::driver::Driver;
use self::inbox::{Command, Finish, Inbox, Question};

/// The name of sessions' threads.
const THREAD: &str = "ferretto-session";

/// The time that dropping a session waits for its thread, which may be inside a writer or callback
/// of the program.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// A recording, and the connection to the service that records.
///
/// Calls may be made from any thread, any number at a time. They are sent in order once the
/// connection is established, and fail after their time limit. Dropping the session ends the
/// recording.
///
/// Forked children do not share the sessions of their parent: all calls fail there, and dropping a
/// session has no effect.
pub struct Session {
    inbox: Arc<Inbox>,
}

impl Session {
    /// Opens a session: starts its thread, which connects to the service. If the service is absent,
    /// subsequent calls fail with [`SessionError::Disconnected`].
    ///
    /// # Errors
    ///
    /// [`SessionError::System`] if the process cannot start a thread,
    /// [`SessionError::NotInitialised`] if the in-process service does not record this process.
    pub fn open(backend: Backend) -> Result<Self, SessionError> {
        backend.check()?;
        let inbox = Arc::new(Inbox::new().map_err(SessionError::System)?);
        let finish = Finish(Arc::clone(&inbox));
        let driver = Driver::new(backend, Arc::clone(&inbox));
        std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                let _finish = finish;
                driver.run();
            })
            .map_err(SessionError::System)?;
        Ok(Self { inbox })
    }

    /// Sets the config for the next [start](Self::start) of the session: a [`RecordingConfig`] or a
    /// whole [`TraceConfig`](crate::proto::TraceConfig).
    pub fn set_up(&self, config: impl Into<RecordingConfig>) {
        let (config, file) = config.into().into_parts();
        self.inbox
            .send(Command::SetUp(Box::new(config), file.map(Into::into)));
    }

    /// Starts recording. Completes when all available data sources are recording, or when the
    /// recording has already ended.
    ///
    /// A recording with a [start trigger](TriggerMode::Start) starts with the trigger. The call may
    /// be dropped before that.
    ///
    /// # Errors
    ///
    /// [`SessionError::Failed`] with the service's message if it rejects the config, and others.
    pub fn start(&self, limit: Duration) -> Call<()> {
        let call = recording::Call::Start;
        self.ask("start", limit, call, Needs::Nothing, |_| Some(()))
    }

    /// Ends the recording. Completes when the recording has ended and all of it can be read; at
    /// once if it has already ended. A recording that is still starting ends after its start.
    ///
    /// # Errors
    ///
    /// [`SessionError::Failed`] if the recording failed, [`SessionError::NotRunning`] if there was
    /// none, and others.
    pub fn stop(&self, limit: Duration) -> Call<()> {
        let call = recording::Call::Stop;
        self.ask("stop", limit, call, Needs::Nothing, |_| Some(()))
    }

    /// Waits until the recording ends by itself.
    ///
    /// # Errors
    ///
    /// The same as for [`stop`](Self::stop).
    pub fn wait_for_end(&self, limit: Duration) -> Call<()> {
        let call = recording::Call::WaitForEnd;
        self.ask(
            "wait for the end",
            limit,
            call,
            Needs::Nothing,
            |_| Some(()),
        )
    }

    /// Flushes all producers.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRunning`] before the start and after the end, [`SessionError::Refused`]
    /// if a producer did not answer in time, and others.
    pub fn flush(&self, limit: Duration) -> Call<()> {
        let call = recording::Call::Flush(explicit_flush(limit));
        self.ask("flush", limit, call, Needs::Running, |_| Some(()))
    }

    /// Reads the packets that have not been read yet: whole packets, each with its tag and length,
    /// so that the concatenated results are a trace file. Call [`flush`](Self::flush) first while
    /// the recording runs. The packets of an abandoned call come with the next one; packets that
    /// the service has written into a file are not returned. `limit` applies to each part of the
    /// answer.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRunning`] before the first start, and others.
    pub fn read(&self, limit: Duration) -> Call<Vec<u8>> {
        let (call, done) = Call::new("read the trace", limit);
        let unread = Arc::clone(&self.inbox.unread);
        let done = done.reclaim(move |bytes: Vec<u8>| unread.keep(&bytes));
        let answer = Trace::new(done, Vec::new(), limit, Arc::clone(&self.inbox.unread));
        self.send_read(answer, limit);
        call
    }

    /// Like [`read`](Self::read), but writes packets as they arrive, and returns the writer. The
    /// session's own thread writes: a writer that blocks delays the other calls.
    ///
    /// # Errors
    ///
    /// The same as for [`read`](Self::read), and [`SessionError::Write`].
    pub fn read_into<W: Write + Send + 'static>(&self, writer: W, limit: Duration) -> Call<W> {
        let (call, done) = Call::new("read the trace", limit);
        let answer = Trace::new(done, writer, limit, Arc::clone(&self.inbox.unread));
        self.send_read(answer, limit);
        call
    }

    /// Gets the statistics of the recording: the state of its buffers, and losses.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn stats(&self, limit: Duration) -> Call<TraceStats> {
        let call = recording::Call::Stats;
        self.ask(
            "get statistics",
            limit,
            call,
            Needs::Session,
            |answer| match answer {
                recording::Answer::Stats(stats) => Some(*stats),
                _ => None,
            },
        )
    }

    /// Gets the producers, data sources and sessions known to the service.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn service_state(&self, limit: Duration) -> Call<TracingServiceState> {
        let call = recording::Call::ServiceState;
        self.ask(
            "query the service",
            limit,
            call,
            Needs::Nothing,
            |answer| match answer {
                recording::Answer::ServiceState(state) => Some(*state),
                _ => None,
            },
        )
    }

    /// Gets the capabilities of the service.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn capabilities(&self, limit: Duration) -> Call<TracingServiceCapabilities> {
        let call = recording::Call::Capabilities;
        self.ask(
            "query capabilities",
            limit,
            call,
            Needs::Nothing,
            |answer| match answer {
                recording::Answer::Capabilities(capabilities) => Some(*capabilities),
                _ => None,
            },
        )
    }

    /// Clones the session with this [unique name](RecordingConfig::unique_name). This session
    /// becomes the clone, to be [read](Self::read); the original continues.
    ///
    /// # Errors
    ///
    /// [`SessionError::Refused`] with the service's message, for example if there is no such
    /// session, and others.
    pub fn clone_named(&self, name: &str, limit: Duration) -> Call<ClonedSession> {
        let request = CloneSessionRequest {
            selector: Some(Selector::UniqueSessionName(name.into())),
            ..Default::default()
        };
        self.clone_session(request, None, limit)
    }

    /// Like [`clone_named`](Self::clone_named), with all options. A session that writes into a file
    /// can only be cloned into `file`.
    ///
    /// # Errors
    ///
    /// The same as for [`clone_named`](Self::clone_named).
    pub fn clone_session(
        &self,
        request: CloneSessionRequest,
        file: Option<File>,
        limit: Duration,
    ) -> Call<ClonedSession> {
        let call = recording::Call::Clone {
            request: Box::new(request),
            file: file.map(Into::into),
        };
        self.ask(
            "copy the session",
            limit,
            call,
            Needs::Nothing,
            |answer| match answer {
                recording::Answer::Cloned(session) => Some(session),
                _ => None,
            },
        )
    }

    /// Changes the config of the running recording. Services allow only few changes, such as
    /// further producers for a data source.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRunning`] before the start, and others.
    pub fn change_config(&self, config: impl Into<RecordingConfig>, limit: Duration) -> Call<()> {
        let (config, _) = config.into().into_parts();
        let request = ChangeTraceConfigRequest {
            trace_config: config.into(),
            ..Default::default()
        };
        let call = recording::Call::ChangeConfig(Box::new(request));
        let name = "change the configuration";
        self.ask(name, limit, call, Needs::Running, |_| Some(()))
    }

    /// Returns the next event of the session. Each event is returned once; the last 1024 are kept.
    ///
    /// # Errors
    ///
    /// See [`SessionError`].
    pub fn next_event(&self, limit: Duration) -> Call<SessionEvent> {
        let (call, done) = Call::new("wait for an event", limit);
        let inbox = Arc::clone(&self.inbox);
        let done = done.reclaim(move |event| inbox.send(Command::PutBack(event)));
        self.inbox.send(Command::NextEvent(done));
        call
    }

    fn send_read<W: Write + Send + 'static>(&self, trace: Trace<W>, part_limit: Duration) {
        self.inbox.send(Command::Ask(Box::new(Question {
            call: recording::Call::Read { part_limit },
            needs: Needs::Session,
            answer: Box::new(trace),
        })));
    }

    fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        limit: Duration,
        call: recording::Call,
        needs: Needs,
        convert: impl FnOnce(recording::Answer) -> Option<T> + Send + 'static,
    ) -> Call<T> {
        let (answered, done) = Call::new(name, limit);
        let answer: Box<dyn Answer> = Box::new(Single::new(done, convert));
        self.inbox.send(Command::Ask(Box::new(Question {
            call,
            needs,
            answer,
        })));
        answered
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A session may be dropped in one of its own callbacks.
        let is_own = std::thread::current().name() == Some(THREAD);
        let limit = if is_own { Duration::ZERO } else { DROP_LIMIT };
        self.inbox.close(limit);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
