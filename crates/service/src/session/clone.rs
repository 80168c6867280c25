//! CloneSession: a copy of what a session holds now, to be read while it goes on.
//!
//! Producers are asked for what they have first; then all buffers asked for together are copied at one
//! point in time. Of a session that writes into a file, the file and all buffers are copied at the same
//! point, so that nothing falls between them.

use std::collections::BTreeMap;

use ferretto_ipc::PassedFd;
use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::trace_stats::FinalFlushOutcome;
use ferretto_proto::{CloneSessionRequest, CloneSessionResponse};

use super::clone_error::CloneError;
use super::triggers::{Received, trigger_mode};
use super::{EventKind, Flushes, Output, ReadProgress, Session, SessionFilter, State, Uuid};
use crate::buffer::TraceBuffer;
use crate::command::Command;
use crate::compress::Compressor;
use crate::event::{ClientId, FileId};
use crate::filter::TraceFilter;
use crate::limits::{BufferId, InstanceId, ProducerId, SessionId};
use crate::pool::memory_needed;
use crate::service::Service;
use crate::service::max_sessions;

/// Selects the session most worth a bug report.
const BUGREPORT_SESSION: u64 = u64::MAX;

/// A clone waiting for producers to commit what they have.
#[derive(Debug)]
pub(crate) struct PendingClone {
    pub(super) requester: Requester,
    filtered: bool,
    trigger: Option<Received>,
    /// Where the copy of the session's file goes, if it writes one.
    pub(super) output: Option<PassedFd>,
    /// `CLOCK_BOOTTIME`.
    started: u64,
    /// Flushes not over yet.
    flushes: usize,
    all_flushed: bool,
    copies: Vec<BufferCopy>,
}

/// Who is to be told how it went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester {
    pub(super) client: ClientId,
    pub(super) request_id: Option<u64>,
}

#[derive(Debug)]
struct BufferCopy {
    index: usize,
    buffer: TraceBuffer,
    /// `CLOCK_BOOTTIME`.
    timestamp: u64,
}

impl PendingClone {
    /// Bytes the copies made so far take.
    pub(crate) fn memory_needed(&self) -> u64 {
        let copies = self.copies.iter();
        copies.map(|copy| memory_needed(&copy.buffer)).sum()
    }
}

/// What only clones have.
#[derive(Debug)]
pub(crate) struct Cloned {
    /// What it was made for.
    pub(crate) trigger: Option<Received>,
    /// To be told once its file is complete.
    pub(super) requester: Option<Requester>,
}

impl Service {
    pub(crate) fn clone_session(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: CloneSessionRequest,
        fd: Option<PassedFd>,
    ) {
        let requester = Requester { client, request_id };
        if let Err(error) = self.begin_clone(requester, request, fd) {
            self.reply_not_cloned(requester, &error);
        }
    }

    fn begin_clone(
        &mut self,
        requester: Requester,
        request: CloneSessionRequest,
        fd: Option<PassedFd>,
    ) -> Result<(), CloneError> {
        let is_bugreport = request.selector == Some(Selector::SessionId(BUGREPORT_SESSION));
        let id = self.select_source(request.selector.as_ref())?;
        self.check_clone(requester.client, id, fd.is_some())?;
        self.clear_before_clone(id)?;
        let now = self.now;
        self.last.clone += 1;
        let clone = self.last.clone;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Err(CloneError::NotFound);
        };
        session.record(&now, EventKind::FlushStarted, true);
        let groups = [true, false];
        let pending = PendingClone {
            requester,
            filtered: !is_bugreport && !request.skip_trace_filter.unwrap_or(false),
            trigger: clone_trigger(&request),
            output: fd.filter(|_| session.writes_into_file()),
            started: now.boottime,
            flushes: groups.len(),
            all_flushed: true,
            copies: Vec::new(),
        };
        session.clones.insert(clone, pending);
        let for_bugreport = is_bugreport || request.for_bugreport.unwrap_or(false);
        for transferred in groups {
            // The first flush may have been over at once, and its buffers not have been copied.
            if self.pending_clone(id, clone).is_some() {
                let asked = self.instances_for_clone(id, transferred);
                self.flush_for_clone(id, clone, transferred, asked, for_bugreport);
            }
        }
        Ok(())
    }

    fn select_source(&self, selector: Option<&Selector>) -> Result<SessionId, CloneError> {
        let mut live = self.sessions.iter().filter(|(_, s)| !s.is_retiring());
        match selector {
            Some(Selector::SessionId(BUGREPORT_SESSION)) => live
                .filter(|(_, s)| s.state == State::Started)
                .map(|(id, s)| (s.config.bugreport_score.unwrap_or(0), *id))
                .filter(|(score, _)| *score > 0)
                .max_by_key(|(score, id)| (*score, std::cmp::Reverse(*id)))
                .map(|(_, id)| id)
                .ok_or(CloneError::NothingEligible),
            Some(Selector::SessionId(wanted)) => live
                .find(|(id, _)| id.get() == *wanted)
                .map(|(id, _)| *id)
                .ok_or(CloneError::NotFound),
            Some(Selector::UniqueSessionName(name)) if !name.is_empty() => live
                .find(|(_, s)| s.cloned.is_none() && s.name() == name)
                .map(|(id, _)| *id)
                .ok_or(CloneError::NotFound),
            _ => Err(CloneError::NotFound),
        }
    }

    fn check_clone(
        &self,
        client: ClientId,
        id: SessionId,
        has_output: bool,
    ) -> Result<(), CloneError> {
        let uid = self.consumers.get(&client).map_or(0, |c| c.peer.uid);
        let session = self.sessions.get(&id).ok_or(CloneError::NotFound)?;
        if uid != 0 && uid != session.consumer_uid {
            return Err(CloneError::OtherUser);
        }
        if session.writes_into_file() && !has_output {
            return Err(CloneError::NoOutput);
        }
        let pending: usize = self.sessions.values().map(|s| s.clones.len()).sum();
        let total = self.sessions.len() + pending;
        if total >= max_sessions(uid) {
            return Err(CloneError::TooManySessions(total));
        }
        Ok(())
    }

    /// Empties the buffers whose data is only wanted as far as it comes with the flush.
    fn clear_before_clone(&mut self, id: SessionId) -> Result<(), CloneError> {
        let wanted = self.buffers_where(id, |config| config.clear_before_clone.unwrap_or(false));
        let mut empty = Vec::new();
        for (_, buffer) in wanted {
            if let Some(full) = self.buffers.get(buffer).filter(|b| b.has_data()) {
                let made = full.new_like().map_err(|_| CloneError::ClearBuffer)?;
                empty.push((buffer, made));
            }
        }
        for (buffer, made) in empty {
            self.buffers.replace(buffer, made);
        }
        Ok(())
    }

    /// Indices and numbers of the session's buffers whose config is as asked for.
    fn buffers_where(
        &self,
        id: SessionId,
        wanted: impl Fn(&ferretto_proto::trace_config::BufferConfig) -> bool,
    ) -> Vec<(usize, BufferId)> {
        let Some(session) = self.sessions.get(&id) else {
            return Vec::new();
        };
        let buffers = session.buffers.iter().copied().enumerate();
        let configs = session.config.buffers.iter();
        buffers
            .zip(configs)
            .filter(|(_, config)| wanted(config))
            .map(|(buffer, _)| buffer)
            .collect()
    }

    fn instances_for_clone(
        &self,
        id: SessionId,
        transferred: bool,
    ) -> BTreeMap<ProducerId, Vec<InstanceId>> {
        let buffers = self.clone_group(id, transferred);
        let mut asked: BTreeMap<ProducerId, Vec<InstanceId>> = BTreeMap::new();
        let Some(session) = self.sessions.get(&id) else {
            return asked;
        };
        for (&(producer, instance), state) in session.instances.iter() {
            let target = state.config.target_buffer.unwrap_or(0);
            let meant = buffers.iter().any(|(_, id)| u32::from(*id) == target);
            if meant && !state.no_flush {
                asked.entry(producer).or_default().push(instance);
            }
        }
        asked
    }

    fn clone_group(&self, id: SessionId, transferred: bool) -> Vec<(usize, BufferId)> {
        self.buffers_where(id, |c| c.transfer_on_clone.unwrap_or(false) == transferred)
    }

    fn pending_clone(&mut self, id: SessionId, clone: u64) -> Option<&mut PendingClone> {
        self.sessions.get_mut(&id)?.clones.get_mut(&clone)
    }

    /// The producers of one group of buffers committed what they had, or will not.
    pub(crate) fn clone_flushed(
        &mut self,
        id: SessionId,
        clone: u64,
        transferred: bool,
        success: bool,
    ) {
        let Some(pending) = self.pending_clone(id, clone) else {
            return;
        };
        pending.all_flushed &= success;
        pending.flushes = pending.flushes.saturating_sub(1);
        let (last, with_file) = (pending.flushes == 0, pending.output.is_some());
        let groups: &[bool] = match (with_file, last) {
            // Together with the file, or data would be in both or in neither.
            (true, true) => &[true, false],
            (true, false) => &[],
            (false, _) => std::slice::from_ref(&transferred),
        };
        self.copy_groups(id, clone, groups, last);
    }

    fn copy_groups(&mut self, id: SessionId, clone: u64, groups: &[bool], finish: bool) {
        let mut result = Ok(());
        for transferred in groups {
            result = result.and_then(|()| self.copy_buffers(id, clone, *transferred));
        }
        if finish || result.is_err() {
            let session = self.sessions.get_mut(&id);
            let Some(pending) = session.and_then(|s| s.clones.remove(&clone)) else {
                return;
            };
            let requester = pending.requester;
            if let Err(error) = result.and_then(|()| self.finish_clone(id, pending)) {
                self.reply_not_cloned(requester, &error);
            }
        }
    }

    fn copy_buffers(
        &mut self,
        id: SessionId,
        clone: u64,
        transferred: bool,
    ) -> Result<(), CloneError> {
        let timestamp = self.now.boottime;
        let mut made = Vec::new();
        for (index, id) in self.clone_group(id, transferred) {
            let Some(buffer) = self.buffers.get(id) else {
                continue;
            };
            let copy = if transferred {
                buffer.new_like()
            } else {
                buffer.try_clone()
            };
            made.push((index, id, copy.map_err(|_| CloneError::CopyBuffer)?));
        }
        let mut copies = Vec::with_capacity(made.len());
        for (index, id, copy) in made {
            let buffer = match transferred {
                true => self.buffers.replace(id, copy),
                false => Some(copy),
            };
            if let Some(buffer) = buffer {
                copies.push(BufferCopy {
                    index,
                    buffer,
                    timestamp,
                });
            }
        }
        if let Some(pending) = self.pending_clone(id, clone) {
            pending.copies.append(&mut copies);
        }
        Ok(())
    }

    /// Makes the session of the copies, and its reader's.
    fn finish_clone(
        &mut self,
        source: SessionId,
        mut pending: PendingClone,
    ) -> Result<(), CloneError> {
        let now = self.now;
        let requester = pending.requester;
        let Some(consumer) = self.consumers.get(&requester.client) else {
            return Ok(());
        };
        if consumer.session.is_some() {
            return Err(CloneError::AlreadyAttached);
        }
        let uid = consumer.peer.uid;
        let from = self.sessions.get(&source).ok_or(CloneError::SourceEnded)?;
        let ends_with_file = from.output.as_ref().is_some_and(Output::is_full);
        let from = from.output.as_ref().map(Output::file);
        if ends_with_file {
            // What did not fit the file is gone, and what follows it belongs to neither.
            for copy in &mut pending.copies {
                copy.buffer = copy.buffer.new_like().map_err(|_| CloneError::CopyBuffer)?;
            }
        }
        pending.copies.sort_by_key(|copy| copy.index);
        let copied: Vec<_> = pending
            .copies
            .iter()
            .map(|c| (c.index, c.timestamp))
            .collect();
        let buffers = self.add_copies(std::mem::take(&mut pending.copies))?;
        self.last.session += 1;
        let (Some(id), Some(session)) = (
            SessionId::new(self.last.session),
            self.sessions.get_mut(&source),
        ) else {
            return Err(CloneError::SourceEnded);
        };
        let msb = self.rng.next_u64() as i64;
        let mut made = session.duplicate(&pending, msb, uid, buffers);
        if trigger_mode(&session.config) == Some(TriggerMode::CLONE_SNAPSHOT) {
            // Its clones are all that is ever read of it: the next one tells of what came since.
            session.triggers.forget_received();
        }
        made.events.record(pending.started, EventKind::CloneStarted);
        for (index, timestamp) in copied {
            let kind = EventKind::BufferCloned;
            made.events.record_number(timestamp, kind, index as u64);
        }
        made.gone.record(&mut made.events, now.boottime);
        made.record(&now, EventKind::TracingDisabled, true);
        let uuid = made.uuid;
        let output = pending.output.zip(from);
        if let Some((fd, from)) = output {
            let file = self.new_file_id();
            made.output = Some(Output::after_copy(file));
            made.cloned = made.cloned.map(|cloned| Cloned {
                requester: Some(requester),
                ..cloned
            });
            let command = Command::CopyFile { from, file, fd };
            self.commands.push_back(command);
        }
        let waits = made.output.is_some();
        self.sessions.insert(id, made);
        self.state_changed(id);
        if let Some(consumer) = self.consumers.get_mut(&requester.client) {
            consumer.session = Some(id);
        }
        if !waits {
            self.reply_cloned(requester, uuid, false);
        }
        Ok(())
    }

    fn add_copies(&mut self, copies: Vec<BufferCopy>) -> Result<Vec<BufferId>, CloneError> {
        let mut ids = Vec::with_capacity(copies.len());
        for copy in copies {
            match self.buffers.add(copy.buffer) {
                Some(id) => ids.push(id),
                None => {
                    ids.into_iter().for_each(|id| self.buffers.remove(id));
                    return Err(CloneError::NoBufferIds);
                }
            }
        }
        Ok(ids)
    }

    /// The session's file is about to be closed: clones that wait for it are made now.
    pub(crate) fn finish_file_clones(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let waiting = session
            .clones
            .iter_mut()
            .filter(|(_, c)| c.output.is_some());
        let waiting: Vec<_> = waiting
            .map(|(clone, pending)| {
                pending.all_flushed = false;
                *clone
            })
            .collect();
        for clone in waiting {
            self.copy_groups(id, clone, &[true, false], true);
        }
    }

    /// The consumer is gone: its clones need not be made.
    pub(crate) fn forget_clones_of(&mut self, client: ClientId) {
        for session in self.sessions.values_mut() {
            session
                .clones
                .retain(|_, pending| pending.requester.client != client);
        }
    }

    /// The copy of the file, and what the buffers held behind it, is complete.
    pub(crate) fn clone_file_closed(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let requester = session.cloned.as_mut().and_then(|c| c.requester.take());
        let uuid = session.uuid;
        if let Some(requester) = requester {
            self.reply_cloned(requester, uuid, true);
        }
    }

    /// The file of a clone could not be written. Returns whether the session was a clone, which is no
    /// more then.
    pub(crate) fn clone_file_failed(&mut self, id: SessionId, file: FileId, reason: &str) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        let Some(cloned) = &mut session.cloned else {
            return false;
        };
        let requester = cloned.requester.take();
        let copying = session.output.take().is_some_and(|o| o.is_untouched());
        let reason = reason.to_owned();
        let error = match copying {
            true => CloneError::CopyFile(reason),
            false => CloneError::WriteFile(reason),
        };
        self.commands.push_back(Command::CloseFile { file });
        if let Some(requester) = requester {
            self.reply_not_cloned(requester, &error);
        }
        self.free_session(id, None);
        self.notify_if_over(id);
        true
    }

    fn reply_cloned(&mut self, requester: Requester, uuid: Uuid, with_file: bool) {
        let reply = CloneSessionResponse {
            success: Some(true),
            error: Some(Vec::new()),
            uuid_msb: Some(uuid.msb),
            uuid_lsb: Some(uuid.lsb),
            was_write_into_file: Some(with_file),
            ..Default::default()
        };
        let reply = Some(Reply::CloneSession(reply));
        self.reply_to_consumer(requester.client, requester.request_id, reply);
    }
}

impl ReadProgress {
    /// Of a clone whose trace begins anew.
    fn of_clone() -> Self {
        Self {
            stats_due: true,
            ..Self::default()
        }
    }

    /// Of a clone whose packets follow a copy of the file they would have gone into. Clocks the file tells of are not
    /// told again: behind later ones, earlier readings would look like clocks that went back.
    fn behind_copied_file(&self) -> Self {
        Self {
            initial_snapshot_given: self.initial_snapshot_given,
            machines: self.machines.clone(),
            ..Self::of_clone()
        }
    }
}

fn clone_trigger(request: &CloneSessionRequest) -> Option<Received> {
    let name = request.clone_trigger_name.clone().unwrap_or_default();
    let producer = request.clone_trigger_producer_name.clone();
    (!name.is_empty()).then(|| Received {
        timestamp: request.clone_trigger_boot_time_ns.unwrap_or(0),
        name,
        producer_name: producer.unwrap_or_default(),
        producer_uid: request.clone_trigger_trusted_producer_uid.unwrap_or(0) as u32,
        delay_ms: request.clone_trigger_delay_ms.unwrap_or(0),
    })
}

impl Session {
    /// A session over these buffers that has recorded what this one has. It starts its trace anew, but
    /// its packet sequences have the same numbers.
    fn duplicate(
        &self,
        pending: &PendingClone,
        msb: i64,
        consumer_uid: u32,
        buffers: Vec<BufferId>,
    ) -> Self {
        let filter = pending.filtered.then(|| self.filter_for_clone()).flatten();
        let final_outcome = match pending.all_flushed {
            true => FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED,
            false => FinalFlushOutcome::FINAL_FLUSH_FAILED,
        };
        Self {
            state: State::Cloned,
            // Until it is announced.
            state_since: 0,
            cloned: Some(Cloned {
                trigger: pending.trigger.clone(),
                requester: None,
            }),
            clones: BTreeMap::new(),
            config: self.config.clone(),
            sources: Vec::new(),
            source_names: BTreeMap::new(),
            consumer: Some(pending.requester.client),
            consumer_uid,
            detach_key: None,
            priority: None,
            uuid: Uuid {
                msb,
                lsb: self.uuid.lsb,
            },
            buffers,
            instances: Default::default(),
            senders: self.senders.clone(),
            all_started: self.all_started,
            initial_snapshot: self.initial_snapshot,
            snapshots: self.snapshots.clone(),
            started_realtime: self.started_realtime,
            events: self.events.clone(),
            concurrent: self.concurrent.clone(),
            progress: match pending.output.is_some() && self.writes_into_file() {
                true => self.progress.behind_copied_file(),
                false => ReadProgress::of_clone(),
            },
            sequences: self.sequences.clone(),
            filter,
            // The config was accepted, so what it asks for is there.
            compressor: Compressor::for_config(&self.config).unwrap_or_default(),
            invalid_packets: self.invalid_packets,
            triggers: self.triggers.duplicate(),
            flush_plan: self.flush_plan,
            flushes: Flushes {
                pending: BTreeMap::new(),
                final_outcome: Some(final_outcome),
                ..self.flushes
            },
            gone: self.gone.clone(),
            output: None,
            error: None,
            retiring: None,
        }
    }

    /// A filter as the config has it.
    fn filter_for_clone(&self) -> Option<SessionFilter> {
        let known = self.filter.as_ref().map(SessionFilter::duplicate);
        // Clones that were to be read unfiltered have none to give away.
        known.or_else(|| {
            let config = self.config.trace_filter.as_option()?;
            TraceFilter::load(config).ok().map(SessionFilter::new)
        })
    }
}
