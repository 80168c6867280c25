//! How a session comes about: made, left alone, taken up again, or copied from another.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ferretto_ipc::port::consumer::{Method, Request};
use ferretto_proto::observable_events::Type;
use ferretto_proto::{
    AttachRequest, AttachResponse, CloneSessionResponse, DetachRequest, EnableTracingRequest,
    MessageField, ObserveEventsRequest,
};

use super::{Control, End, GRACE, Session, State, Task, Then};

/// How long the service may take to answer what it can answer at once.
const ANSWER: Duration = Duration::from_secs(10);
/// How long to wait for the reason after Detach was refused.
const REASON: Duration = Duration::from_secs(1);
/// How long the service may take to collect what producers hold.
const CLONE: Duration = Duration::from_secs(30);

impl Session {
    /// Asks the service for what this connection is for.
    pub(super) fn begin<C: Control>(&mut self, control: &mut C) -> Result<Option<End>> {
        match &mut self.plan.task {
            Task::Record => {
                control.connected();
                self.enable()?;
                self.state_deadline = self
                    .plan
                    .duration()
                    .map(|duration| self.latest_end(duration));
                if self.stop_early {
                    self.flush()?;
                }
            }
            Task::Detach(key) => {
                let key = key.clone();
                control.connected();
                self.enable()?;
                self.detach(key)?;
            }
            Task::Attach { key, .. } => {
                let key = Some(key.clone());
                let attach = AttachRequest {
                    key,
                    ..Default::default()
                };
                self.invoke(Request::Attach(attach), None)?;
                self.wait_in(State::Attaching, ANSWER);
            }
            Task::Clone(request) => {
                let request = (**request).clone();
                if !self.connection.supports(Method::CloneSession) {
                    return Ok(Some(End::Failed(
                        "CloneSession IPC not supported".to_owned(),
                    )));
                }
                // The service uses it if the session writes into a file.
                let file = self.file()?;
                self.invoke(Request::CloneSession(request), file)?;
                self.wait_in(State::Cloning, CLONE);
            }
        }
        Ok(None)
    }

    fn wait_in(&mut self, state: State, patience: Duration) {
        self.state = state;
        self.state_deadline = Some(Instant::now() + patience);
    }

    fn latest_end(&self, duration: Duration) -> Instant {
        let config = &self.plan.config;
        let flush = self.plan.timeout(config.flush_timeout_ms);
        let stop = self.plan.timeout(config.data_source_stop_timeout_ms);
        Instant::now() + duration + flush + stop + GRACE
    }

    /// Subscribes to the start of the data sources and to triggers.
    fn observe(&mut self) -> Result<()> {
        if !self.connection.supports(Method::ObserveEvents) {
            return Ok(());
        }
        let mut events = vec![Type::TYPE_ALL_DATA_SOURCES_STARTED];
        if self.plan.makes_snapshots() {
            events.push(Type::TYPE_CLONE_TRIGGER_HIT);
        }
        let observe = ObserveEventsRequest {
            events_to_observe: events,
            ..Default::default()
        };
        self.invoke(Request::ObserveEvents(observe), None)
    }

    /// Makes the session and starts it.
    fn enable(&mut self) -> Result<()> {
        self.observe()?;
        let file = match self.plan.streams_into_file() {
            true => self.file()?,
            false => None,
        };
        let enable = EnableTracingRequest {
            trace_config: MessageField::some(self.plan.config.clone()),
            ..Default::default()
        };
        self.invoke(Request::EnableTracing(enable), file)?;
        self.state = State::Tracing;
        self.state_deadline = None;
        self.start_deadline = Some(Instant::now() + self.plan.start_patience);
        Ok(())
    }

    fn file(&self) -> Result<Option<OwnedFd>> {
        let file = self.plan.output.as_ref().map(File::try_clone);
        let file = file.transpose().context("cannot pass the file on")?;
        Ok(file.map(OwnedFd::from))
    }

    fn detach(&mut self, key: Vec<u8>) -> Result<()> {
        let detach = DetachRequest {
            key: Some(key),
            ..Default::default()
        };
        self.invoke(Request::Detach(detach), None)?;
        self.start_deadline = None;
        self.wait_in(State::Detaching, ANSWER);
        Ok(())
    }

    pub(super) fn is_detaching(&self) -> bool {
        matches!(self.state, State::Detaching | State::NotDetached)
    }

    pub(super) fn detached(&self) -> End {
        match self.plan.task {
            Task::Attach {
                then: Then::Wait | Then::Stop,
                ..
            } => End::AttachUnfit,
            _ => End::Detached,
        }
    }

    /// An upstream service answers Detach before it tells what is wrong with the config.
    pub(super) fn detach_refused(&mut self) -> Option<End> {
        let is_new = matches!(self.plan.task, Task::Detach(_));
        if is_new && self.refusal.is_none() && !self.connection.is_closed() {
            self.wait_in(State::NotDetached, REASON);
            return None;
        }
        Some(End::DetachRefused(self.refusal.take()))
    }

    /// The session is this connection's now.
    pub(super) fn attached<C: Control>(
        &mut self,
        mut response: AttachResponse,
        control: &mut C,
    ) -> Result<Option<End>> {
        let Task::Attach { key, then } = &self.plan.task else {
            return Ok(None);
        };
        let (key, then) = (key.clone(), *then);
        self.plan.config = response.trace_config.take().unwrap_or_default();
        if then == Then::Leave || !self.plan.streams_into_file() {
            self.detach(key)?;
            return Ok(None);
        }
        let enable = EnableTracingRequest {
            attach_notification_only: Some(true),
            ..Default::default()
        };
        self.invoke(Request::EnableTracing(enable), None)?;
        self.state = State::Tracing;
        self.state_deadline = None;
        // Only now, because a session whose data sources have started long ago tells that to late observers.
        self.observe()?;
        if then == Then::Stop || self.stop_early {
            control.stopping();
            self.flush()?;
        }
        Ok(None)
    }

    /// The service has copied the session, or says why not.
    pub(super) fn cloned<C: Control>(
        &mut self,
        response: &CloneSessionResponse,
        control: &mut C,
    ) -> Result<Option<End>> {
        if response.success != Some(true) {
            let error = response.error.as_deref().unwrap_or_default();
            return Ok(Some(End::Failed(
                String::from_utf8_lossy(error).into_owned(),
            )));
        }
        control.cloned();
        if response.was_write_into_file == Some(true) {
            return Ok(Some(End::Complete));
        }
        self.read()?;
        Ok(None)
    }
}
