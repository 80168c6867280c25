//! EnableTracing: creates a session from a config, or refuses it.

use ferretto_ipc::PassedFd;
use ferretto_proto::trace_config::LockdownModeOperation;
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::{EnableTracingRequest, TraceConfig};

use super::{Service, admit, output_path};
use crate::buffer::{BufferOptions, Policy, Semantics, TraceBuffer};
use crate::command::Command;
use crate::consumer::{Consumer, Destination, Opening, WaitsFor};
use crate::event::{ClientId, FileId};
use crate::ids::BufferId;
use crate::matching::{Budget, Weight};
use crate::pool::BufferPool;
use crate::session::{
    CheckedConfig, EnableError, Session, check_buffer_sizes, check_config, check_late,
    check_output, trigger_mode,
};

impl Service {
    pub(super) fn enable_tracing(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: EnableTracingRequest,
        fd: Option<PassedFd>,
    ) {
        if request.attach_notification_only.unwrap_or(false) {
            // After Attach, this request gets the report of the session's end.
            return self.finish_enable(client, request_id, Ok(()));
        }
        let config = request.trace_config.into_option().unwrap_or_default();
        let result = self.begin_enable(client, request_id, config, fd);
        if let Some(result) = result.transpose() {
            self.finish_enable(client, request_id, result);
        }
    }

    /// Makes all checks. Returns `None` if the driver has to act first.
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
            && self.boost.must_raise(checked.priority)
        {
            let opening = Opening {
                request_id,
                config: checked.config,
                priority: Some(priority),
                waits_for: WaitsFor::Priority(destination),
            };
            self.wait_for_driver(client, opening);
            self.boost
                .raise_for(&mut self.cx.commands, client, priority);
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
                let consumer = self.cx.consumers.get(client).ok_or(EnableError::NoOutput)?;
                output_path::resolve(path, consumer.peer(), &self.cx.options).map(Destination::Path)
            }
        }
    }

    fn wait_for_driver(&mut self, client: ClientId, opening: Opening) {
        if let Some(consumer) = self.cx.consumers.existing(client) {
            consumer.wait_for_driver(opening);
        }
    }

    /// Creates the session. Returns `None` if the output file must be created first.
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
                let file = self.cx.ids.next_file();
                self.create_session(client, checked, Some(file))?;
                // The first write is at the end of the first period.
                self.cx.commands.push(Command::AdoptFile { file, fd });
            }
            Destination::Path(path) => {
                let file = self.cx.ids.next_file();
                let opening = Opening {
                    request_id,
                    config: checked.config,
                    priority: checked.priority,
                    waits_for: WaitsFor::File(file),
                };
                self.wait_for_driver(client, opening);
                self.cx.commands.push(Command::OpenFile { file, path });
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Makes all checks without changing any state.
    fn check_enable(
        &self,
        client: ClientId,
        config: TraceConfig,
        has_fd: bool,
    ) -> Result<CheckedConfig, EnableError> {
        let consumer = self.cx.consumers.get(client);
        if consumer.is_some_and(|consumer| consumer.session().is_some()) {
            return Err(EnableError::AlreadyActive);
        }
        let uid = consumer.map_or(0, Consumer::uid);
        let others = self.sessions.expressions_of_user(uid, None);
        let mut budget = Budget::beside(Weight::default(), others);
        let mut checked = check_config(config, &mut budget)?;
        let now = self.cx.now.boottime;
        admit::check(&self.sessions, &self.cooldowns, &checked.config, uid, now)?;
        check_late(&mut checked, &mut budget)?;
        check_output(&checked.config, has_fd)?;
        check_buffer_sizes(&checked.config)?;
        Ok(checked)
    }

    /// Continues with the consumer whose output file the driver created or failed to create.
    pub(super) fn file_opened(&mut self, file: FileId, result: Result<(), String>) {
        let Some((client, opening)) = self.cx.consumers.take_opening_of_file(file) else {
            // The consumer is gone.
            if result.is_ok() {
                self.cx.commands.push(Command::CloseFile { file });
            }
            return;
        };
        let Opening {
            request_id, config, ..
        } = opening;
        let result = match result {
            Err(_) => {
                let path = config.output_path.unwrap_or_default();
                Err(EnableError::CreateFile(
                    String::from_utf8_lossy(&path).into_owned(),
                ))
            }
            // Other consumers may have started sessions.
            Ok(()) => {
                let created = self
                    .check_enable(client, config, false)
                    .and_then(|checked| self.create_session(client, checked, Some(file)));
                if created.is_err() {
                    self.cx.commands.push(Command::CloseFile { file });
                }
                created
            }
        };
        self.finish_enable(client, request_id, result);
        self.update_priority();
        self.resume_deferred(client);
    }

    /// Continues with the consumer whose config requests a priority, which the driver granted or
    /// refused. The consumer may be gone, which withdraws its request.
    pub(super) fn priority_answered(&mut self, client: ClientId, result: Result<(), String>) {
        let consumer = self.cx.consumers.if_connected(client);
        let Some(Opening {
            request_id,
            config,
            waits_for: WaitsFor::Priority(destination),
            ..
        }) = consumer.and_then(Consumer::take_opening_of_priority)
        else {
            return;
        };
        let opened = match result {
            Err(error) => Err(EnableError::Boost(error)),
            // Other consumers may have started sessions.
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
        self.update_priority();
        self.resume_deferred(client);
    }

    /// Keeps the request for the end of the session, or replies with the error. In both cases it
    /// replaces an earlier request on this connection.
    fn finish_enable(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        result: Result<(), EnableError>,
    ) {
        let Some(consumer) = self.cx.consumers.existing(client) else {
            return;
        };
        let session = consumer.session();
        let end_request = request_id.filter(|_| result.is_ok());
        consumer.replace_end_request(&mut self.cx.commands, end_request);
        match (result, session) {
            (Err(error), _) => {
                let error = Some(error.to_string());
                self.cx.reply_session_ended(client, request_id, error);
            }
            (Ok(()), Some(session)) => {
                self.act(session, Session::notify_if_over);
            }
            (Ok(()), None) => {}
        }
    }

    /// Creates the session, sets up its data sources, and starts it unless the start is deferred.
    fn create_session(
        &mut self,
        client: ClientId,
        checked: CheckedConfig,
        file: Option<FileId>,
    ) -> Result<(), EnableError> {
        let buffers = create_buffers(&mut self.cx.buffers, &checked.config)?;
        let uid = self.cx.consumers.get(client).map_or(0, Consumer::uid);
        self.apply_side_effects(&checked.config, uid);
        let deferred = checked.config.deferred_start.unwrap_or(false)
            || trigger_mode(&checked.config) == Some(TriggerMode::START_TRACING);
        let session = Session::new(&mut self.cx, (client, uid), checked, buffers, file);
        let id = session.id();
        if let Some(consumer) = self.cx.consumers.existing(client) {
            consumer.join_session(id);
        }
        self.sessions.insert(session);
        self.sessions.note_existing_sessions(id);
        self.act(id, |session, cx| {
            session.set_up_all_sources(cx);
            session.arm_trigger_timeout(cx);
            session.announce(cx);
            if !deferred {
                session.start(cx);
            }
        });
        Ok(())
    }

    /// Applies a config's effects on other sessions, once the config can no longer be refused.
    fn apply_side_effects(&mut self, config: &TraceConfig, uid: u32) {
        match config.lockdown_mode {
            Some(LockdownModeOperation::LOCKDOWN_SET) => self.cx.producers.set_lockdown(true),
            Some(LockdownModeOperation::LOCKDOWN_CLEAR) => self.cx.producers.set_lockdown(false),
            _ => {}
        }
        self.cooldowns.begin(config, self.cx.now.boottime);
        let priority = config.exclusive_prio.unwrap_or(0);
        for other in admit::sessions_to_end(&self.sessions, config, uid) {
            let reason = format!(
                "Aborted due to user requested higher-priority ({priority}) exclusive session."
            );
            self.act(other, |session, cx| session.free(cx, Some(reason)));
        }
    }
}

fn create_buffers(
    pool: &mut BufferPool,
    config: &TraceConfig,
) -> Result<Vec<BufferId>, EnableError> {
    let mut made = Vec::with_capacity(config.buffers.len());
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
        let buffer = TraceBuffer::new(BufferOptions {
            size,
            policy,
            semantics,
        });
        made.push(buffer.map_err(|_| EnableError::NoBuffers)?);
    }
    pool.add_all(made.into_iter()).ok_or(EnableError::NoBuffers)
}
