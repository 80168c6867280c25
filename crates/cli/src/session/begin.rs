//! The start of a session: created, detached, attached, or cloned from another session.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ferretto_client::recording::{Call, Needs};
use ferretto_proto::TraceConfig;
use ferretto_proto::observable_events::Type;

use super::{Control, End, GRACE, Session, Task, Then};

/// The limit for calls to which the service can reply at once.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// The time to wait for the reason after the service refused to detach a session.
const REASON_LIMIT: Duration = Duration::from_secs(1);
/// The limit for cloning, in which the service flushes producers.
const CLONE_LIMIT: Duration = Duration::from_secs(30);

impl Session {
    /// Sends the first request of this connection.
    pub(super) fn begin<C: Control>(&mut self, control: &mut C) -> Result<()> {
        match &self.plan.task {
            Task::Record => {
                control.connected();
                self.enable()?;
                self.call(Call::WaitForStart, self.plan.start_patience);
                if let Some(duration) = self.plan.duration() {
                    let rest = self.plan.flush_timeout() + self.plan.stop_timeout() + GRACE;
                    self.call(Call::WaitForEnd, duration + rest);
                }
                if self.stop_early {
                    self.finish(control);
                }
            }
            Task::Detach(key) => {
                let key = key.clone();
                control.connected();
                self.enable()?;
                self.detach(key);
            }
            Task::Attach { key, .. } => {
                let key = key.clone();
                self.call(Call::Attach { key }, REPLY_LIMIT);
            }
            Task::Clone(request) => {
                let request = request.clone();
                // The service writes into it if the session has a file.
                let file = self.file()?;
                self.call(Call::Clone { request, file }, CLONE_LIMIT);
            }
        }
        Ok(())
    }

    /// Subscribes to the start of the data sources and to triggers.
    fn observe(&mut self) {
        let mut events = vec![Type::TYPE_ALL_DATA_SOURCES_STARTED];
        if self.plan.makes_snapshots() {
            events.push(Type::TYPE_CLONE_TRIGGER_HIT);
        }
        self.recording
            .call(Call::Observe(events), Needs::Nothing, None);
    }

    /// Creates and starts the session.
    fn enable(&mut self) -> Result<()> {
        self.observe();
        let file = if self.plan.streams_into_file() {
            self.file()?
        } else {
            None
        };
        let config = Box::new(self.plan.config.clone());
        let call = Call::Enable { config, file };
        self.recording.call(call, Needs::Nothing, None);
        Ok(())
    }

    fn file(&self) -> Result<Option<OwnedFd>> {
        let file = self.plan.output.as_ref().map(File::try_clone);
        let file = file.transpose().context("cannot duplicate the file")?;
        Ok(file.map(OwnedFd::from))
    }

    fn detach(&mut self, key: Vec<u8>) {
        self.detaching = true;
        let reason_patience = REASON_LIMIT;
        let call = Call::Detach {
            key,
            reason_patience,
        };
        self.call(call, REPLY_LIMIT);
    }

    pub(super) fn detached(&self) -> End {
        match self.plan.task {
            Task::Attach {
                then: Then::Wait | Then::Stop,
                ..
            } => End::AttachWithoutFile,
            _ => End::Detached,
        }
    }

    /// Continues after the session was attached to this connection.
    pub(super) fn attached<C: Control>(&mut self, config: TraceConfig, control: &mut C) {
        let Task::Attach { key, then } = &self.plan.task else {
            return;
        };
        let (key, then) = (key.clone(), *then);
        self.plan.config = config;
        if then == Then::Leave || !self.plan.streams_into_file() {
            return self.detach(key);
        }
        self.recording.call(Call::Watch, Needs::Nothing, None);
        // After attaching, since sessions report the start of their data sources also to later
        // observers.
        self.observe();
        if then == Then::Stop || self.stop_early {
            self.finish(control);
        }
    }
}
