//! CloneSession: a copy of a session's current content, which can be read while the session
//! continues.
//!
//! Producers are flushed first; then all requested buffers are copied at one point in time. If the
//! session writes into a file, the file and all buffers are copied at the same point, so that no
//! data falls between them.

use std::collections::BTreeMap;

use ferretto_ipc::PassedFd;
use ferretto_proto::CloneSessionRequest;
use ferretto_proto::trace_config::BufferConfig;
use ferretto_proto::trace_config::trigger_config::TriggerMode;

use super::clone_error::{CloneError, Requester, reply_cloned, reply_not_cloned};
use super::config::BufferGroup;
use super::flush::Asked;
use super::scrape::Scraping;
use super::{
    ConcurrentEvents, End, EventKind, Instances, Output, Owner, ReadProgress, ReceivedTrigger,
    Session, SessionFilter, SessionState, trigger_mode,
};
use crate::buffer::TraceBuffer;
use crate::command::Command;
use crate::compress::Compressor;
use crate::context::Context;
use crate::event::ClientId;
use crate::filter::TraceFilter;
use crate::ids::BufferId;
use crate::pool::memory_needed;

/// The clones of a session in progress.
#[derive(Debug, Default)]
pub(super) struct Clones {
    pending: BTreeMap<u64, PendingClone>,
    last: u64,
    /// The finished clones that are not among the sessions yet.
    finished: Vec<Session>,
}

/// A clone waiting for the flush of producers.
#[derive(Debug)]
struct PendingClone {
    requester: Requester,
    filtered: bool,
    trigger: Option<ReceivedTrigger>,
    /// The descriptor to copy the session's file into, if it writes one.
    output: Option<PassedFd>,
    /// `CLOCK_BOOTTIME`.
    started: u64,
    /// The number of flushes that are not over.
    flushes: usize,
    all_flushed: bool,
    copies: Vec<BufferCopy>,
}

#[derive(Debug)]
struct BufferCopy {
    index: usize,
    buffer: TraceBuffer,
    /// `CLOCK_BOOTTIME`.
    timestamp: u64,
}

/// A request to clone a session that was selected.
#[derive(Debug)]
pub(crate) struct CloneOrder {
    pub(crate) requester: Requester,
    pub(crate) filtered: bool,
    pub(crate) for_bugreport: bool,
    pub(crate) trigger: Option<ReceivedTrigger>,
    pub(crate) output: Option<PassedFd>,
}

/// The state that only clones have.
#[derive(Debug)]
pub(super) struct Cloned {
    /// The trigger that caused the clone.
    trigger: Option<ReceivedTrigger>,
    /// The consumer to notify once the clone's file is complete.
    requester: Option<Requester>,
}

impl Cloned {
    pub(super) fn trigger(&self) -> Option<&ReceivedTrigger> {
        self.trigger.as_ref()
    }
}

impl Clones {
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns true if there are finished clones to add to the sessions.
    pub(super) fn are_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Returns the memory of the copies made so far, in bytes.
    pub(super) fn memory_needed(&self) -> u64 {
        let copies = self.pending.values().flat_map(|clone| &clone.copies);
        copies.map(|copy| memory_needed(&copy.buffer)).sum()
    }

    fn begin(&mut self, order: CloneOrder, started: u64) -> u64 {
        self.last += 1;
        let pending = PendingClone {
            requester: order.requester,
            filtered: order.filtered,
            trigger: order.trigger,
            output: order.output,
            started,
            flushes: BufferGroup::ALL.len(),
            all_flushed: true,
            copies: Vec::new(),
        };
        self.pending.insert(self.last, pending);
        self.last
    }

    /// Notes that the producers of one group have flushed or failed to. Returns the groups to copy
    /// now, and true if they are the last; `None` if the clone was cancelled.
    fn flushed(
        &mut self,
        clone: u64,
        group: BufferGroup,
        success: bool,
    ) -> Option<(Vec<BufferGroup>, bool)> {
        let pending = self.pending.get_mut(&clone)?;
        pending.all_flushed &= success;
        pending.flushes = pending.flushes.saturating_sub(1);
        let last = pending.flushes == 0;
        let groups = match (pending.output.is_some(), last) {
            // All groups are copied together with the file. Otherwise data would be in both or in
            // neither.
            (true, true) => BufferGroup::ALL.to_vec(),
            (true, false) => Vec::new(),
            (false, _) => vec![group],
        };
        Some((groups, last))
    }

    /// Takes the clones that need a copy of the file.
    fn take_with_file(&mut self) -> Vec<PendingClone> {
        let waiting = self.pending.extract_if(.., |_, c| c.output.is_some());
        waiting.map(|(_, pending)| pending).collect()
    }

    /// Returns the clones that need a copy of the file, which is made before their flushes are
    /// over.
    fn hurry_with_file(&mut self) -> Vec<u64> {
        let with_file = self.pending.iter_mut().filter(|(_, c)| c.output.is_some());
        let hurried = with_file.map(|(clone, pending)| {
            pending.all_flushed = false;
            *clone
        });
        hurried.collect()
    }
}

impl Session {
    /// Takes the session's finished clones.
    pub(crate) fn take_finished_clones(&mut self) -> Vec<Self> {
        std::mem::take(&mut self.clones.finished)
    }

    /// Begins a clone, which is made once producers have flushed.
    pub(crate) fn begin_clone(
        &mut self,
        cx: &mut Context,
        mut order: CloneOrder,
    ) -> Result<(), CloneError> {
        self.clear_before_clone(cx)?;
        self.record(&cx.now, EventKind::FlushStarted, true);
        order.output = order.output.filter(|_| self.writes_into_file());
        let for_bugreport = order.for_bugreport;
        let clone = self.clones.begin(order, cx.now.boottime);
        for group in BufferGroup::ALL {
            // The first flush may be over already, but have copied no buffers.
            if self.clones.pending.contains_key(&clone) {
                let asked = self.instances_for_clone(*group);
                self.flush_for_clone(cx, clone, *group, asked, for_bugreport);
            }
        }
        Ok(())
    }

    /// Clears the buffers whose data is only wanted from the flush on.
    fn clear_before_clone(&mut self, cx: &mut Context) -> Result<(), CloneError> {
        let wanted = self.buffers_where(|config| config.clear_before_clone.unwrap_or(false));
        let mut empty = Vec::new();
        for (_, buffer) in wanted {
            if let Some(full) = cx.buffers.get(buffer).filter(|b| b.has_data()) {
                let made = full.new_like().map_err(|_| CloneError::ClearBuffer)?;
                empty.push((buffer, made));
            }
        }
        for (buffer, made) in empty {
            cx.buffers.replace(buffer, made);
        }
        Ok(())
    }

    /// Returns the indices and ids of the session's buffers with a matching config.
    fn buffers_where(&self, wanted: impl Fn(&BufferConfig) -> bool) -> Vec<(usize, BufferId)> {
        let buffers = self.buffers.iter().copied().enumerate();
        let with_configs = buffers.zip(self.config.buffers.iter());
        let chosen = with_configs.filter(|(_, config)| wanted(config));
        chosen.map(|(buffer, _)| buffer).collect()
    }

    fn instances_for_clone(&self, group: BufferGroup) -> Asked {
        let buffers = self.buffers_where(|config| group.has(config));
        let mut asked = Asked::new();
        for (&(producer, id), instance) in self.instances.iter() {
            let target = instance.config().target_buffer.unwrap_or(0);
            let meant = buffers.iter().any(|(_, id)| u32::from(*id) == target);
            if meant && !instance.no_flush() {
                asked.entry(producer).or_default().push(id);
            }
        }
        asked
    }

    /// Continues a clone: the producers of one group of buffers have flushed or failed to.
    pub(super) fn clone_flushed(
        &mut self,
        cx: &mut Context,
        clone: u64,
        group: BufferGroup,
        success: bool,
    ) {
        if let Some((groups, last)) = self.clones.flushed(clone, group, success) {
            self.copy_groups(cx, clone, &groups, last);
        }
    }

    fn copy_groups(&mut self, cx: &mut Context, clone: u64, groups: &[BufferGroup], finish: bool) {
        let mut result = Ok(());
        for group in groups {
            result = result.and_then(|()| self.copy_buffers(cx, clone, *group));
        }
        if (finish || result.is_err())
            && let Some(pending) = self.clones.pending.remove(&clone)
        {
            let requester = pending.requester;
            if let Err(error) = result.and_then(|()| self.finish_clone(cx, pending)) {
                reply_not_cloned(cx, requester, &error);
            }
        }
    }

    fn copy_buffers(
        &mut self,
        cx: &mut Context,
        clone: u64,
        group: BufferGroup,
    ) -> Result<(), CloneError> {
        let timestamp = cx.now.boottime;
        let transferred = group == BufferGroup::Transferred;
        let mut made = Vec::new();
        for (index, id) in self.buffers_where(|config| group.has(config)) {
            let Some(buffer) = cx.buffers.get(id) else {
                continue;
            };
            let copy = if transferred {
                buffer.new_like()
            } else {
                buffer.try_clone()
            };
            made.push((index, id, copy.map_err(|_| CloneError::CopyBuffer)?));
        }
        let copies = made.into_iter().filter_map(|(index, id, copy)| {
            let buffer = if transferred {
                cx.buffers.replace(id, copy)?
            } else {
                copy
            };
            Some(BufferCopy {
                index,
                buffer,
                timestamp,
            })
        });
        if let Some(pending) = self.clones.pending.get_mut(&clone) {
            pending.copies.extend(copies);
        }
        Ok(())
    }

    /// Creates the session with the copies, and replies to the consumer.
    fn finish_clone(
        &mut self,
        cx: &mut Context,
        mut pending: PendingClone,
    ) -> Result<(), CloneError> {
        let now = cx.now;
        let requester = pending.requester;
        let Some(consumer) = cx.consumers.get(requester.client) else {
            return Ok(());
        };
        if consumer.session().is_some() {
            return Err(CloneError::AlreadyAttached);
        }
        let uid = consumer.uid();
        if self.output.as_ref().is_some_and(Output::is_full) {
            // Data that did not fit the file is lost, and later data does not belong to the file.
            for copy in &mut pending.copies {
                copy.buffer = copy.buffer.new_like().map_err(|_| CloneError::CopyBuffer)?;
            }
        }
        pending.copies.sort_by_key(|copy| copy.index);
        let copied = pending.copies.iter().map(|c| (c.index, c.timestamp));
        let copied: Vec<_> = copied.collect();
        let buffers = std::mem::take(&mut pending.copies);
        let buffers = buffers.into_iter().map(|copy| copy.buffer);
        let buffers = cx.buffers.add_all(buffers).ok_or(CloneError::NoBufferIds)?;
        let mut made = self.duplicate(cx, &pending, uid, buffers);
        if trigger_mode(&self.config) == Some(TriggerMode::CLONE_SNAPSHOT) {
            // Only clones of this session are read, and the next one reports later triggers.
            self.triggers.forget_received();
        }
        made.events.record(pending.started, EventKind::CloneStarted);
        for (index, timestamp) in copied {
            let kind = EventKind::BufferCloned;
            made.events.record_number(timestamp, kind, index as u64);
        }
        made.gone.record(&mut made.events, now.boottime);
        made.record(&now, EventKind::TracingDisabled, true);
        made.announce(cx);
        if let Some(consumer) = cx.consumers.existing(requester.client) {
            consumer.join_session(made.id);
        }
        match (pending.output, &self.output) {
            (Some(fd), Some(output)) => {
                let (from, file) = (output.file(), cx.ids.next_file());
                made.output = Some(Output::after_copy(file));
                if let Some(cloned) = &mut made.cloned {
                    cloned.requester = Some(requester);
                }
                cx.commands.push(Command::CopyFile { from, file, fd });
            }
            _ => reply_cloned(cx, requester, made.uuid, false),
        }
        self.clones.finished.push(made);
        Ok(())
    }

    /// Makes the clones that wait for the session's file before it is closed.
    pub(super) fn finish_file_clones(&mut self, cx: &mut Context) {
        for clone in self.clones.hurry_with_file() {
            self.copy_groups(cx, clone, BufferGroup::ALL, true);
        }
    }

    /// Fails the waiting clones after an error of the session's file. The data in transit to the
    /// file is no longer in a buffer, so that these clones would silently lack it.
    pub(super) fn fail_file_clones(&mut self, cx: &mut Context, reason: &str) {
        for pending in self.clones.take_with_file() {
            let error = CloneError::WriteFile(reason.to_owned());
            reply_not_cloned(cx, pending.requester, &error);
        }
    }

    /// Fails all pending clones, since the session is being freed with its data.
    pub(super) fn fail_clones(&mut self, cx: &mut Context) {
        for pending in std::mem::take(&mut self.clones.pending).into_values() {
            reply_not_cloned(cx, pending.requester, &CloneError::SourceEnded);
        }
        if let Some(requester) = self.forget_requester() {
            reply_not_cloned(cx, requester, &CloneError::Freed);
        }
    }

    /// Cancels the clones of a consumer that is gone.
    pub(crate) fn forget_clones_for(&mut self, client: ClientId) {
        let pending = &mut self.clones.pending;
        pending.retain(|_, pending| pending.requester.client != client);
    }

    /// Takes the consumer to notify once this clone's file is complete.
    pub(super) fn forget_requester(&mut self) -> Option<Requester> {
        self.cloned.as_mut()?.requester.take()
    }

    /// Reports that this clone is complete: the copy of the file, and the buffers after it.
    pub(super) fn clone_file_closed(&mut self, cx: &mut Context) {
        if let Some(requester) = self.forget_requester() {
            reply_cloned(cx, requester, self.uuid, true);
        }
    }

    /// Ends this clone, since its file could not be written.
    pub(super) fn clone_file_failed(&mut self, cx: &mut Context, reason: &str) {
        let reason = reason.to_owned();
        let output = self.output.take();
        let error = if output.as_ref().is_some_and(Output::is_untouched) {
            CloneError::CopyFile(reason)
        } else {
            CloneError::WriteFile(reason)
        };
        if let Some(output) = output {
            let file = output.file();
            cx.commands.push(Command::CloseFile { file });
        }
        if let Some(requester) = self.forget_requester() {
            reply_not_cloned(cx, requester, &error);
        }
        self.free(cx, None);
        self.notify_if_over(cx);
    }

    /// Returns a session with these buffers and a copy of this session's state. Its trace starts
    /// from the beginning, but its packet sequences have the same ids.
    fn duplicate(
        &self,
        cx: &mut Context,
        pending: &PendingClone,
        uid: u32,
        buffers: Vec<BufferId>,
    ) -> Self {
        let filter = pending.filtered.then(|| self.filter_for_clone()).flatten();
        cx.live_sessions += 1;
        Self {
            id: cx.ids.next_session(),
            state: SessionState::Cloned,
            // Set when the clone is announced.
            state_since: 0,
            announced: Vec::new(),
            cloned: Some(Cloned {
                trigger: pending.trigger.clone(),
                requester: None,
            }),
            clones: Clones::default(),
            config: self.config.clone(),
            sources: Vec::new(),
            source_names: BTreeMap::new(),
            owner: Owner::new(pending.requester.client, uid),
            priority: None,
            uuid: self.uuid.of_clone(&mut cx.rng),
            buffers,
            instances: Instances::default(),
            senders: self.senders.clone(),
            all_started: self.all_started,
            initial_snapshot: self.initial_snapshot,
            snapshots: self.snapshots.clone(),
            started_realtime: self.started_realtime,
            events: self.events.clone(),
            concurrent: ConcurrentEvents::clone(&self.concurrent),
            progress: if pending.output.is_some() && self.writes_into_file() {
                self.progress.behind_copied_file()
            } else {
                ReadProgress::of_clone()
            },
            sequences: self.sequences.clone(),
            filter,
            // The config was accepted, so that its features are present.
            compressor: Compressor::for_config(&self.config).unwrap_or_default(),
            invalid_packets: self.invalid_packets,
            triggers: self.triggers.duplicate(),
            flush_plan: self.flush_plan,
            scraping: Scraping::default(),
            flushes: self.flushes.duplicate(pending.all_flushed),
            gone: self.gone.clone(),
            output: None,
            error: None,
            end: End::Alive,
        }
    }

    /// Returns a filter as configured.
    fn filter_for_clone(&self) -> Option<SessionFilter> {
        let known = self.filter.as_ref().map(SessionFilter::duplicate);
        // A clone to be read unfiltered has no filter to copy.
        known.or_else(|| {
            let config = self.config.trace_filter.as_option()?;
            TraceFilter::load(config).ok().map(SessionFilter::new)
        })
    }
}

/// Returns the trigger in the request, if there is one.
pub(crate) fn clone_trigger(request: &CloneSessionRequest) -> Option<ReceivedTrigger> {
    let name = request.clone_trigger_name.clone().unwrap_or_default();
    let producer = request.clone_trigger_producer_name.clone();
    (!name.is_empty()).then(|| ReceivedTrigger {
        timestamp: request.clone_trigger_boot_time_ns.unwrap_or(0),
        name,
        producer_name: producer.unwrap_or_default(),
        producer_uid: request.clone_trigger_trusted_producer_uid.unwrap_or(0) as u32,
        delay_ms: request.clone_trigger_delay_ms.unwrap_or(0),
    })
}
