//! The plan of a session, its possible ends, and the trait for decisions while it runs.

use std::fs::File;
use std::time::Duration;

use anyhow::Result;
use ferretto_proto::observable_events::CloneTriggerHit;
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::{CloneSessionRequest, TraceConfig};

use super::Signal;

/// The default of `flush_timeout_ms` and of `data_source_stop_timeout_ms`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The purpose of the connection to the service.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// Record a new session to its end.
    Record,
    /// Start a session that continues without this process, under a key.
    Detach(Vec<u8>),
    /// Attach to a session that was detached under a key.
    Attach {
        /// The key.
        key: Vec<u8>,
        /// The step after attaching.
        then: Then,
    },
    /// Clone another session.
    Clone(Box<CloneSessionRequest>),
}

/// The step after attaching to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Wait until it ends.
    Wait,
    /// End it.
    Stop,
    /// Detach it again under the same key, to check only that it exists.
    Leave,
}

/// The config of a recording, and its file.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The task.
    pub(crate) task: Task,
    /// The config that is sent to the service.
    pub(crate) config: TraceConfig,
    /// The file, unless the service creates it as named in the config.
    pub(crate) output: Option<File>,
    /// The time to wait for the start of all data sources.
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

    /// Returns true if triggers request snapshots, which the consumer makes by cloning.
    pub(crate) fn makes_snapshots(&self) -> bool {
        let triggers = &self.config.trigger_config;
        triggers.use_clone_snapshot_if_available.unwrap_or(false)
            || triggers.trigger_mode == Some(TriggerMode::CLONE_SNAPSHOT)
    }

    /// Returns the duration of the recording in the config, if it has one.
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
    /// The session could not be detached: the service refused its config, for this reason if known,
    /// or the key is in use.
    DetachRefused(Option<String>),
    /// No session of this user was detached under the key.
    AttachRefused,
    /// The session has no file, so its trace cannot be read over another connection. It was
    /// detached again.
    AttachWithoutFile,
    /// There was no session, since the service refused the connection or closed it at once.
    NotBound(String),
    /// The service refused the config or the request, or failed.
    Failed(String),
    /// The connection was lost before there was a trace to read.
    LostTracing,
    /// The connection was lost while the trace was read back; the file has a part of it.
    LostReading,
    /// The service stopped sending while the trace was read back; the file has a part of it.
    ReadGap,
    /// The service did not end the session in time.
    Stuck,
    /// The user aborted the session.
    Aborted,
}

/// The reaction of the session to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Continue.
    GoOn,
    /// Stop the recording in order: flush, stop, read back.
    Stop,
    /// End at once and leave the file as it is.
    Abort,
}

/// The part of a recording that differs between commands.
pub(crate) trait Control {
    /// Called when the service has accepted the connection, before the config is sent.
    fn connected(&mut self) {}
    /// Called when all data sources have started, or when the time for that is over (`all` is
    /// false). Not called if the session ends before.
    fn started(&mut self, all: bool) -> Result<()> {
        let _ = all;
        Ok(())
    }
    /// Called when a trigger requests a snapshot of the running session.
    fn snapshot(&mut self, hit: &CloneTriggerHit) -> Result<()> {
        let _ = hit;
        Ok(())
    }
    /// Called when the session has been cloned, before it is read.
    fn cloned(&mut self) {}
    /// Returns the reaction to a signal.
    fn signal(&mut self, signal: Signal) -> Reaction;
    /// Called when the recording stops, before flushing and reading.
    fn stopping(&mut self) {}
    /// Called with the period [`period`](Self::period), if there is one.
    fn tick(&mut self) -> Reaction {
        Reaction::GoOn
    }
    /// Returns the time until the next [`tick`](Self::tick).
    fn period(&self) -> Option<Duration> {
        None
    }
}
