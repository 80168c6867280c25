//! Recordings that are controlled from inside a program.
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

/// The time that dropping a session waits for its thread, which has nothing left to do but may be
/// inside a writer or callback of the program.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// One recording, and the connection to the service that makes it.
///
/// Calls may come from any thread, any number at a time; they are made in order as soon as the
/// connection stands, and fail within the time limit they are given. Dropping the session ends the
/// recording.
///
/// A forked child has no part in its parent's sessions: there all calls fail, and dropping one does
/// nothing.
pub struct Session {
    inbox: Arc<Inbox>,
}

impl Session {
    /// Opens a session: starts its thread, which connects. A service that is absent shows in the
    /// calls that follow, as [`SessionError::Disconnected`].
    ///
    /// # Errors
    ///
    /// [`SessionError::System`] if the process may not have another thread.
    pub fn open(backend: Backend) -> Result<Self, SessionError> {
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

    /// Starts recording. Done when all data sources that are there record, or the recording has
    /// ended already.
    ///
    /// A recording that waits for a [trigger](TriggerMode::Start) starts with that: give the call
    /// up, it is made.
    ///
    /// # Errors
    ///
    /// [`SessionError::Failed`] with the service's words if it does not like the config, and
    /// others.
    pub fn start(&self, limit: Duration) -> Call<()> {
        let call = recording::Call::Start;
        self.ask("start", limit, call, Needs::Nothing, |_| Some(()))
    }

    /// Ends the recording. Done when it has ended and everything recorded can be read; at once if
    /// it has already. If it is still being started it ends after that.
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
    /// As of [`stop`](Self::stop).
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

    /// Reads the packets that were not read before: whole packets, each with its tag and length, so
    /// that the results one after the other are a trace file. While the recording runs,
    /// [`flush`](Self::flush) first. The packets of a call that was given up come with the next
    /// one; those that the service wrote into a file do not come at all. `limit` is for each part
    /// of the answer.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRunning`] if nothing was started, and others.
    pub fn read(&self, limit: Duration) -> Call<Vec<u8>> {
        let (call, done) = Call::new("read the trace", limit);
        let unread = Arc::clone(&self.inbox.unread);
        let done = done.reclaim(move |bytes: Vec<u8>| unread.keep(&bytes));
        let answer = Trace::new(done, Vec::new(), limit, Arc::clone(&self.inbox.unread));
        self.send_read(answer, limit);
        call
    }

    /// Like [`read`](Self::read), but writes packets as they arrive, and returns the writer. That
    /// is done on the session's own thread: a writer that blocks holds up the other calls.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read), and [`SessionError::Write`].
    pub fn read_into<W: Write + Send + 'static>(&self, writer: W, limit: Duration) -> Call<W> {
        let (call, done) = Call::new("read the trace", limit);
        let answer = Trace::new(done, writer, limit, Arc::clone(&self.inbox.unread));
        self.send_read(answer, limit);
        call
    }

    /// Counters of the recording: the content of the buffers, and losses.
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

    /// Producers, data sources and sessions known to the service.
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

    /// Clones the session with this [unique name](RecordingConfig::unique_name). This session is
    /// the clone then, to be [read](Self::read); the other one goes on.
    ///
    /// # Errors
    ///
    /// [`SessionError::Refused`] with the service's words, for example if there is no such session,
    /// and others.
    pub fn clone_named(&self, name: &str, limit: Duration) -> Call<ClonedSession> {
        let request = CloneSessionRequest {
            selector: Some(Selector::UniqueSessionName(name.into())),
            ..Default::default()
        };
        self.clone_session(request, None, limit)
    }

    /// Like [`clone_named`](Self::clone_named), with everything that can be asked for. A session
    /// that writes into a file can only be copied into `file`.
    ///
    /// # Errors
    ///
    /// As of [`clone_named`](Self::clone_named).
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

    /// Changes the config of the running recording. Services allow little: more producers for a
    /// data source.
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

    /// The next thing that the session tells by itself. Each is told once; the last 1024 are kept.
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
