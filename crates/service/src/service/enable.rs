//! EnableTracing: from a config to a session, or to a refusal.

use std::collections::BTreeMap;

use ferretto_ipc::PassedFd;
use ferretto_proto::trace_config::LockdownModeOperation;
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::{EnableTracingRequest, TraceConfig};

use super::output_path;
use crate::buffer::{BufferOptions, Policy, Semantics, TraceBuffer};
use crate::command::{Command, FilePlace};
use crate::consumer::{Opening, WaitsFor};
use crate::event::{ClientId, FileId};
use crate::limits::{BufferId, SessionId};
use crate::matching::{Budget, Weight};
use crate::packet::SequenceIds;
use crate::service::Service;
use crate::session::triggers::trigger_mode;
use crate::session::validate::{self, CheckedConfig, EnableError};
use crate::session::{
    ConcurrentEvents, EventLog, FlushPlan, Flushes, Output, ReadProgress, Session, SessionFilter,
    State, Triggers, Uuid,
};
use crate::snapshot::SnapshotRing;

/// Where the trace goes, besides being read back.
#[derive(Debug)]
pub(crate) enum Destination {
    Memory,
    Descriptor(PassedFd),
    Path(FilePlace),
}

impl Service {
    pub(crate) fn enable_tracing(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: EnableTracingRequest,
        fd: Option<PassedFd>,
    ) {
        if request.attach_notification_only.unwrap_or(false) {
            return self.rearm_end_notification(client, request_id);
        }
        let config = request.trace_config.into_option().unwrap_or_default();
        let result = self.begin_enable(client, request_id, config, fd);
        if let Some(result) = result.transpose() {
            self.finish_enable(client, request_id, result);
        }
    }

    /// Checks everything; the result is `None` if the driver must do something first.
    fn begin_enable(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        config: TraceConfig,
        fd: Option<PassedFd>,
    ) -> Result<Option<()>, EnableError> {
        let checked = self.check_enable(client, config, fd.is_some())?;
        let destination = self.destination(client, &checked.config, fd)?;
        if let Some(priority) = checked.priority
            && self.must_boost(checked.priority)
        {
            let opening = Opening {
                request_id,
                config: checked.config,
                priority: Some(priority),
                waits_for: WaitsFor::Priority(destination),
            };
            self.wait_for_driver(client, opening);
            self.boost_for(client, priority);
            return Ok(None);
        }
        self.open_destination(client, request_id, checked, destination)
    }

    fn destination(
        &self,
        client: ClientId,
        config: &TraceConfig,
        fd: Option<PassedFd>,
    ) -> Result<Destination, EnableError> {
        if !config.write_into_file.unwrap_or(false) {
            return Ok(Destination::Memory);
        }
        match config.output_path.as_deref().unwrap_or_default() {
            [] => fd.map(Destination::Descriptor).ok_or(EnableError::NoOutput),
            path => {
                let consumer = self.consumers.get(&client).ok_or(EnableError::NoOutput)?;
                output_path::place(path, &consumer.peer, &self.options).map(Destination::Path)
            }
        }
    }

    fn wait_for_driver(&mut self, client: ClientId, opening: Opening) {
        if let Some(consumer) = self.consumers.get_mut(&client) {
            consumer.opening = Some(Box::new(opening));
        }
    }

    /// Makes the session; the result is `None` if the output file must be created first.
    fn open_destination(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        checked: CheckedConfig,
        destination: Destination,
    ) -> Result<Option<()>, EnableError> {
        match destination {
            Destination::Memory => self.create_session(client, checked, None)?,
            Destination::Descriptor(fd) => {
                let file = self.new_file_id();
                self.create_session(client, checked, Some(file))?;
                // Nothing is written before the first period is over.
                self.commands.push_back(Command::AdoptFile { file, fd });
            }
            Destination::Path(place) => {
                let file = self.new_file_id();
                let opening = Opening {
                    request_id,
                    config: checked.config,
                    priority: checked.priority,
                    waits_for: WaitsFor::File(file),
                };
                self.wait_for_driver(client, opening);
                self.commands.push_back(Command::OpenFile { file, place });
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// All checks, changing nothing.
    fn check_enable(
        &self,
        client: ClientId,
        config: TraceConfig,
        has_fd: bool,
    ) -> Result<CheckedConfig, EnableError> {
        let consumer = self.consumers.get(&client);
        if consumer.is_some_and(|consumer| consumer.session.is_some()) {
            return Err(EnableError::AlreadyActive);
        }
        let uid = consumer.map_or(0, |consumer| consumer.peer.uid);
        let others = self.expressions_of_user(uid, None);
        let mut budget = Budget::beside(Weight::default(), others);
        let mut checked = validate::check_config(config, &mut budget)?;
        self.check_admission(&checked.config, uid)?;
        validate::check_late(&mut checked, &mut budget)?;
        validate::check_output(&checked.config, has_fd)?;
        validate::check_buffer_sizes(&checked.config)?;
        Ok(checked)
    }

    /// The driver created the output file, or could not.
    pub(crate) fn file_opened(&mut self, file: FileId, result: Result<(), String>) {
        let waiting = self.consumers.iter_mut().find_map(|(client, consumer)| {
            let opening = consumer
                .opening
                .take_if(|opening| matches!(opening.waits_for, WaitsFor::File(f) if f == file))?;
            Some((*client, opening))
        });
        let Some((client, opening)) = waiting else {
            // The consumer left meanwhile.
            if result.is_ok() {
                self.commands.push_back(Command::CloseFile { file });
            }
            return;
        };
        let Opening {
            request_id, config, ..
        } = *opening;
        let result = match result {
            Err(_) => {
                let path = config.output_path.unwrap_or_default();
                Err(EnableError::CreateFile(
                    String::from_utf8_lossy(&path).into_owned(),
                ))
            }
            // Other consumers' sessions may have come meanwhile.
            Ok(()) => {
                let created = self
                    .check_enable(client, config, false)
                    .and_then(|checked| self.create_session(client, checked, Some(file)));
                if created.is_err() {
                    self.commands.push_back(Command::CloseFile { file });
                }
                created
            }
        };
        self.finish_enable(client, request_id, result);
        self.settle_priority();
        self.resume_deferred(client);
    }

    /// The driver gave the priority a config asks for, or could not.
    pub(crate) fn priority_answered(&mut self, client: ClientId, result: Result<(), String>) {
        let waiting = self.consumers.get_mut(&client).and_then(|consumer| {
            let waits = |o: &mut Box<Opening>| matches!(o.waits_for, WaitsFor::Priority(_));
            consumer.opening.take_if(waits)
        });
        let Some(opening) = waiting else {
            // The consumer left meanwhile, and took what it wanted back with it.
            return;
        };
        let Opening {
            request_id,
            config,
            waits_for: WaitsFor::Priority(destination),
            ..
        } = *opening
        else {
            return;
        };
        let opened = match result {
            Err(error) => Err(EnableError::Boost(error)),
            // Other consumers' sessions may have come meanwhile.
            Ok(()) => {
                let has_fd = matches!(destination, Destination::Descriptor(_));
                let checked = self.check_enable(client, config, has_fd);
                checked.and_then(|checked| {
                    self.open_destination(client, request_id, checked, destination)
                })
            }
        };
        if let Some(result) = opened.transpose() {
            self.finish_enable(client, request_id, result);
        }
        self.settle_priority();
        self.resume_deferred(client);
    }

    /// Keeps the request for the end of the session, or answers it with what was wrong. An earlier
    /// request on this connection loses its place either way.
    fn finish_enable(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        result: Result<(), EnableError>,
    ) {
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        let session = consumer.session;
        let replaced = match &result {
            Ok(()) => std::mem::replace(&mut consumer.end_request, request_id),
            Err(_) => consumer.end_request.take(),
        };
        if replaced.is_some() {
            self.reply_to_consumer(client, replaced, None);
        }
        match result {
            Err(error) => self.reply_session_ended(client, request_id, Some(error.to_string())),
            Ok(()) => {
                if let Some(session) = session {
                    self.notify_if_over(session);
                }
            }
        }
    }

    /// After Attach: says where to report the end of the session.
    fn rearm_end_notification(&mut self, client: ClientId, request_id: Option<u64>) {
        self.finish_enable(client, request_id, Ok(()));
    }

    /// Makes the session, sets its data sources up and starts it unless that is deferred.
    fn create_session(
        &mut self,
        client: ClientId,
        checked: CheckedConfig,
        file: Option<FileId>,
    ) -> Result<(), EnableError> {
        let CheckedConfig {
            config,
            sources,
            filter,
            priority,
            compressor,
            trigger_patterns,
        } = checked;
        let buffers = self.create_buffers(&config)?;
        let uid = self.consumers.get(&client).map_or(0, |c| c.peer.uid);
        self.apply_side_effects(&config, uid);
        self.last.session += 1;
        let Some(id) = SessionId::new(self.last.session) else {
            return Ok(());
        };
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return Ok(());
        };
        consumer.session = Some(id);
        let output = file.map(|file| Output::new(file, &config));
        let session = Session {
            state: State::Configured,
            state_since: self.now.boottime,
            cloned: None,
            clones: Default::default(),
            uuid: choose_uuid(&config, || self.rng.next_u64() as i64),
            flush_plan: FlushPlan::choose(&config),
            priority,
            consumer: Some(client),
            consumer_uid: consumer.peer.uid,
            detach_key: None,
            source_names: source_names(&config),
            config,
            sources,
            buffers,
            output,
            instances: Default::default(),
            senders: Default::default(),
            all_started: false,
            initial_snapshot: None,
            snapshots: SnapshotRing::default(),
            started_realtime: None,
            events: EventLog::default(),
            concurrent: ConcurrentEvents::default(),
            progress: ReadProgress::default(),
            sequences: SequenceIds::new(self.options.quotas.sequences_per_user),
            filter: filter.map(SessionFilter::new),
            compressor,
            invalid_packets: 0,
            triggers: Triggers::new(trigger_patterns),
            flushes: Flushes::default(),
            gone: Default::default(),
            error: None,
            retiring: None,
        };
        let deferred = session.config.deferred_start.unwrap_or(false)
            || trigger_mode(&session.config) == Some(TriggerMode::START_TRACING);
        self.sessions.insert(id, session);
        self.note_existing_sessions(id);
        self.set_up_all_sources(id);
        self.arm_trigger_timeout(id);
        self.state_changed(id);
        if !deferred {
            self.start_tracing(id);
        }
        Ok(())
    }

    /// What a config changes besides its own session. Only once nothing can be refused any more.
    fn apply_side_effects(&mut self, config: &TraceConfig, uid: u32) {
        match config.lockdown_mode {
            Some(LockdownModeOperation::LOCKDOWN_SET) => self.lockdown = true,
            Some(LockdownModeOperation::LOCKDOWN_CLEAR) => self.lockdown = false,
            _ => {}
        }
        self.begin_cooldown(config);
        let priority = config.exclusive_prio.unwrap_or(0);
        for other in self.sessions_to_end(config, uid) {
            let reason = format!(
                "Aborted due to user requested higher-priority ({priority}) exclusive session."
            );
            self.free_session(other, Some(reason));
        }
    }

    fn create_buffers(&mut self, config: &TraceConfig) -> Result<Vec<BufferId>, EnableError> {
        let mut ids = Vec::with_capacity(config.buffers.len());
        for buffer in &config.buffers {
            let size = u64::from(buffer.size_kb.unwrap_or(0)) * 1024;
            let policy = match buffer.fill_policy {
                Some(FillPolicy::DISCARD) => Policy::Discard,
                _ => Policy::Ring,
            };
            let semantics = match buffer.experimental_mode {
                Some(ExperimentalMode::TRACE_BUFFER_V2) => Semantics::V2,
                _ => Semantics::V1,
            };
            let options = BufferOptions {
                size,
                policy,
                semantics,
            };
            let made = TraceBuffer::new(options)
                .ok()
                .and_then(|made| self.buffers.add(made));
            match made {
                Some(id) => ids.push(id),
                None => {
                    ids.into_iter().for_each(|id| self.buffers.remove(id));
                    return Err(EnableError::NoBuffers);
                }
            }
        }
        Ok(ids)
    }
}

fn source_names(config: &TraceConfig) -> BTreeMap<Vec<u8>, Vec<usize>> {
    let mut names: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (index, source) in config.data_sources.iter().enumerate() {
        let name = source.config.name.clone().unwrap_or_default();
        names.entry(name).or_default().push(index);
    }
    names
}

fn choose_uuid(config: &TraceConfig, mut random: impl FnMut() -> i64) -> Uuid {
    let (msb, lsb) = (
        config.trace_uuid_msb.unwrap_or(0),
        config.trace_uuid_lsb.unwrap_or(0),
    );
    if (msb, lsb) != (0, 0) {
        Uuid { msb, lsb }
    } else {
        Uuid {
            msb: random(),
            lsb: random(),
        }
    }
}
