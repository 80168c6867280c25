//! The plan of a session, its possible ends, and who decides meanwhile.

use std::fs::File;
use std::time::Duration;

use anyhow::Result;
use ferretto_proto::observable_events::CloneTriggerHit;
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::{CloneSessionRequest, TraceConfig};

use super::Signal;

/// Default of `flush_timeout_ms` and of `data_source_stop_timeout_ms`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The purpose of the connection to the service.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// A session of its own, to its end.
    Record,
    /// A session that continues without this process, under a key.
    Detach(Vec<u8>),
    /// A session that was left under a key.
    Attach {
        /// The key.
        key: Vec<u8>,
        /// The step that follows.
        then: Then,
    },
    /// A clone of another session.
    Clone(Box<CloneSessionRequest>),
}

/// The step after a session was taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Wait until it ends.
    Wait,
    /// End it.
    Stop,
    /// Leave it under the same key: the question was whether it is there.
    Leave,
}

/// The config of a recording, and its file.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The task.
    pub(crate) task: Task,
    /// The config as it goes to the service.
    pub(crate) config: TraceConfig,
    /// The file, unless the config names one that the service makes.
    pub(crate) output: Option<File>,
    /// The time to wait for all data sources to say that they have started.
    pub(crate) start_patience: Duration,
}

impl Plan {
    pub(super) fn streams_into_file(&self) -> bool {
        self.config.write_into_file.unwrap_or(false)
    }

    /// Returns the time that the service waits for producers to flush.
    pub(super) fn flush_timeout(&self) -> Duration {
        timeout(self.config.flush_timeout_ms)
    }

    /// Returns the time that the service waits for data sources to stop.
    pub(super) fn stop_timeout(&self) -> Duration {
        timeout(self.config.data_source_stop_timeout_ms)
    }

    /// Returns true if triggers ask for snapshots, which consumers make.
    pub(crate) fn makes_snapshots(&self) -> bool {
        let triggers = &self.config.trigger_config;
        triggers.use_clone_snapshot_if_available.unwrap_or(false)
            || triggers.trigger_mode == Some(TriggerMode::CLONE_SNAPSHOT)
    }

    /// Returns the duration of the recording by its own config, if that says it.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let config = &self.config;
        let ms = match config.duration_ms.unwrap_or(0) {
            0 => {
                let triggers = &config.trigger_config;
                let delay = triggers
                    .triggers
                    .iter()
                    .filter_map(|t| t.stop_delay_ms)
                    .max();
                u64::from(triggers.trigger_timeout_ms.unwrap_or(0)) + u64::from(delay.unwrap_or(0))
            }
            ms => u64::from(ms),
        };
        (ms > 0).then(|| Duration::from_millis(ms))
    }
}

fn timeout(ms: Option<u32>) -> Duration {
    match ms {
        None | Some(0) => DEFAULT_TIMEOUT,
        Some(ms) => Duration::from_millis(u64::from(ms)),
    }
}

/// The end of a session, as far as this process is concerned.
#[derive(Debug)]
pub(crate) enum End {
    /// The file is complete.
    Complete,
    /// The session continues under its key.
    Detached,
    /// The session does not go on under its key: the service refused its config, for this reason if
    /// it told one, or the key is taken.
    DetachRefused(Option<String>),
    /// No session of this user was left under the key.
    AttachRefused,
    /// The session has no file, so its trace cannot be read over another connection. It was
    /// detached again.
    AttachUnfit,
    /// There was no session: the service refused the connection or dropped it at once.
    NotBound(String),
    /// The service refused the config or the request, or failed.
    Failed(String),
    /// The connection was lost before there was a trace to read.
    LostTracing,
    /// The connection was lost while the trace was read back; the file holds a part.
    LostReading,
    /// The service fell silent while the trace was read back; the file holds a part.
    ReadGap,
    /// The service did not end the session in time.
    Stuck,
    /// The user gave up waiting.
    Aborted,
}

/// The reaction of the session to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing.
    GoOn,
    /// Ends the recording in order: flush, stop, read back.
    Stop,
    /// Ends at once and leaves the file as it is.
    Abort,
}

/// The part of a recording that differs between commands.
pub(crate) trait Control {
    /// The service accepted the connection; the config is on its way.
    fn connected(&mut self) {}
    /// All data sources have started, or were waited for long enough. Not called if the session
    /// ends before.
    fn started(&mut self, all: bool) -> Result<()> {
        let _ = all;
        Ok(())
    }
    /// A trigger asks for a snapshot of the running session.
    fn snapshot(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        let _ = hit;
        Ok(())
    }
    /// The session has been cloned; reading follows.
    fn cloned(&mut self) {}
    /// A signal came.
    fn signal(&mut self, signal: Signal) -> Reaction;
    /// The recording stops now; flushing and reading follow.
    fn stopping(&mut self) {}
    /// Called regularly if [`TICK`](Self::TICK) says so.
    fn tick(&mut self) -> Reaction {
        Reaction::GoOn
    }
    /// The period of [`tick`](Self::tick).
    const TICK: Option<Duration> = None;
}
