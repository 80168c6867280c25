//! Flushes: asking producers to commit what they hold, and waiting until they have.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::get_async_command_response::{ClearIncrementalState, Flush};
use ferretto_proto::trace_config::WriteFlushMode;
use ferretto_proto::trace_stats::FinalFlushOutcome;
use ferretto_proto::{FlushRequest, TraceConfig};

use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};

use super::start_stop::encode_sources;
use super::{EventKind, Flushes, State};
use crate::event::ClientId;
use crate::limits::{
    DEFAULT_WRITE_PERIOD_MS, FlushId, InstanceId, MAX_PENDING_FLUSHES, MAX_SLOW_LISTED, ProducerId,
    SessionId,
};
use crate::service::{Service, Timer};
use crate::session::file::write_period_ms;
use crate::timers::{TimeBase, TimerKey, aligned_delay_ms};

/// A flush that the service begins.
const fn by_service(reason: FlushReason) -> FlushFlags {
    FlushFlags::new(FlushInitiator::Service, reason)
}

/// When a session flushes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushPlan {
    Never,
    /// In milliseconds.
    Every(u64),
    /// Each time before the output file is written.
    BeforeWriting,
}

impl FlushPlan {
    pub(crate) fn choose(config: &TraceConfig) -> Self {
        let asked = match config.flush_period_ms.unwrap_or(0) {
            0 => Self::Never,
            ms => Self::Every(ms.into()),
        };
        if !config.write_into_file.unwrap_or(false) {
            return asked;
        }
        // An enum value unknown here was kept with the unknown fields, and disables.
        let unknown = || {
            config
                .unknown_fields
                .iter()
                .any(|field| field.number == WRITE_FLUSH_MODE)
        };
        match config.write_flush_mode {
            Some(WriteFlushMode::WRITE_FLUSH_DISABLED) => asked,
            Some(WriteFlushMode::WRITE_FLUSH_ENABLED) => Self::BeforeWriting,
            None if unknown() => asked,
            _ if write_period_ms(config) <= DEFAULT_WRITE_PERIOD_MS => {
                Self::Every(DEFAULT_WRITE_PERIOD_MS)
            }
            _ => Self::BeforeWriting,
        }
    }
}

const WRITE_FLUSH_MODE: u32 = 44;

/// What follows a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    Reply {
        client: ClientId,
        request_id: Option<u64>,
    },
    WriteFile,
    Stop,
    /// Copies the buffers that are given away with a clone, or those that are not.
    Clone {
        clone: u64,
        transferred: bool,
    },
}

/// A flush some producers have not confirmed.
#[derive(Debug)]
pub(crate) struct PendingFlush {
    producers: BTreeSet<ProducerId>,
    flags: FlushFlags,
    then: Then,
    timer: TimerKey,
}

impl Flushes {
    /// Returns true if a flush that is to be the last waits for this producer.
    pub(crate) fn last_waits_for(&self, producer: ProducerId) -> bool {
        self.pending.values().any(|pending| {
            let is_last = pending.flags.reason() == FlushReason::Stop;
            is_last && pending.producers.contains(&producer)
        })
    }
}

impl Service {
    /// The consumer's Flush.
    pub(crate) fn flush_requested(
        &mut self,
        client: ClientId,
        request_id: Option<u64>,
        request: &FlushRequest,
    ) {
        let session = self
            .consumers
            .get(&client)
            .and_then(|consumer| consumer.session);
        let Some(session) = session else {
            return self.reply_to_consumer(client, request_id, None);
        };
        let timeout_ms = request.timeout_ms.unwrap_or(0).into();
        let then = Then::Reply { client, request_id };
        let flags = FlushFlags(request.flags.unwrap_or(0));
        self.flush(session, timeout_ms, flags, then);
    }

    pub(crate) fn flush_before_writing(&mut self, id: SessionId) {
        self.flush(id, 0, by_service(FlushReason::Periodic), Then::WriteFile);
    }

    /// Collects what producers hold, then ends the session.
    pub(crate) fn flush_and_stop(&mut self, id: SessionId) {
        self.flush(id, 0, by_service(FlushReason::Stop), Then::Stop);
    }

    /// Asks every producer that takes part to commit. `timeout_ms` 0 is the session's own.
    fn flush(&mut self, id: SessionId, timeout_ms: u64, flags: FlushFlags, then: Then) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.record(&now, EventKind::FlushStarted, false);
        let asked = self.instances_to_flush(id);
        self.flush_instances(id, timeout_ms, flags, asked, then);
    }

    /// One of the flushes before a clone.
    pub(crate) fn flush_for_clone(
        &mut self,
        id: SessionId,
        clone: u64,
        transferred: bool,
        asked: BTreeMap<ProducerId, Vec<InstanceId>>,
        for_bugreport: bool,
    ) {
        let flags = by_service(FlushReason::Clone);
        let flags = if for_bugreport {
            flags.for_bugreport()
        } else {
            flags
        };
        let then = Then::Clone { clone, transferred };
        self.flush_instances(id, 0, flags, asked, then);
    }

    fn flush_instances(
        &mut self,
        id: SessionId,
        timeout_ms: u64,
        flags: FlushFlags,
        asked: BTreeMap<ProducerId, Vec<InstanceId>>,
        then: Then,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Started || session.flushes.pending.len() > MAX_PENDING_FLUSHES {
            return self.after_flush(id, then, false);
        }
        session.events.forget(EventKind::LastFlushSlowDataSources);
        session.flushes.requested += 1;
        let timeout_ms = if timeout_ms == 0 {
            session.flush_timeout_ms()
        } else {
            timeout_ms
        };
        self.last.flush += 1;
        let flush = self.last.flush;
        if asked.is_empty() {
            return self.flush_done(id, then, true);
        }
        let timer = self.set_timer(
            TimeBase::Monotonic,
            timeout_ms,
            Timer::FlushTimeout(id, flush),
        );
        if flags.reason() == FlushReason::Stop {
            self.watch_end(id);
        }
        let producers = asked.keys().copied().collect();
        if let Some(session) = self.sessions.get_mut(&id) {
            let pending = PendingFlush {
                producers,
                flags,
                then,
                timer,
            };
            session.flushes.pending.insert(flush, pending);
        }
        for (producer, data_source_ids) in asked {
            let command = Flush {
                data_source_ids,
                request_id: Some(flush),
                flags: Some(flags.0),
                ..Default::default()
            };
            self.command_producer(producer, command);
        }
    }

    /// Instances by producer. A producer that cannot be scraped from here scrapes itself, and is
    /// asked even if nothing of it wants to be flushed.
    fn instances_to_flush(&self, id: SessionId) -> BTreeMap<ProducerId, Vec<InstanceId>> {
        let mut asked: BTreeMap<ProducerId, Vec<InstanceId>> = BTreeMap::new();
        let Some(session) = self.sessions.get(&id) else {
            return asked;
        };
        for (&(producer, instance), state) in session.instances.iter() {
            let scrapes_itself = || {
                self.producers
                    .get(&producer)
                    .is_some_and(|p| p.is_emulated() && p.scraped)
            };
            if !state.no_flush {
                asked.entry(producer).or_default().push(instance);
            } else if scrapes_itself() {
                asked.entry(producer).or_default();
            }
        }
        asked
    }

    /// A producer committed everything up to this flush, and so up to all earlier ones.
    pub(crate) fn flush_acked(&mut self, producer: ProducerId, flush: FlushId) {
        self.drop_from_flushes(producer, flush);
    }

    /// The producer is gone: nobody needs to wait for it.
    pub(crate) fn forget_producer_in_flushes(&mut self, producer: ProducerId) {
        self.drop_from_flushes(producer, FlushId::MAX);
    }

    fn drop_from_flushes(&mut self, producer: ProducerId, up_to: FlushId) {
        let mut done = Vec::new();
        for (id, session) in &mut self.sessions {
            for (flush, pending) in session.flushes.pending.range_mut(..=up_to) {
                if pending.producers.remove(&producer) && pending.producers.is_empty() {
                    done.push((*id, *flush));
                }
            }
        }
        for (id, flush) in done {
            if let Some(pending) = self.take_pending_flush(id, flush) {
                self.flush_done(id, pending.then, true);
            }
        }
    }

    fn take_pending_flush(&mut self, id: SessionId, flush: FlushId) -> Option<PendingFlush> {
        let pending = self.sessions.get_mut(&id)?.flushes.pending.remove(&flush)?;
        self.timers.cancel(pending.timer);
        Some(pending)
    }

    pub(crate) fn flush_timed_out(&mut self, id: SessionId, flush: FlushId) {
        let now = self.now;
        let Some(pending) = self.take_pending_flush(id, flush) else {
            return;
        };
        let reason = pending.flags.reason();
        if let Some(session) = self.sessions.get_mut(&id)
            && matches!(reason, FlushReason::Stop | FlushReason::Clone)
        {
            let slow = session
                .instances
                .iter()
                .filter(|((producer, _), _)| pending.producers.contains(producer));
            let names = slow.map(|(_, i)| (i.producer_name.as_ref(), i.name()));
            let details = encode_sources(names.take(MAX_SLOW_LISTED));
            let kind = EventKind::LastFlushSlowDataSources;
            session.events.record_details(now.boottime, kind, details);
        }
        self.flush_done(id, pending.then, false);
    }

    /// The flush is over: the packets are in the buffers, or will not come.
    fn flush_done(&mut self, id: SessionId, then: Then, success: bool) {
        let now = self.now;
        self.scrape_all(id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.record(&now, EventKind::AllDataSourcesFlushed, true);
            session.flushes.succeeded += u64::from(success);
            session.flushes.failed += u64::from(!success);
        }
        self.after_flush(id, then, success);
    }

    fn after_flush(&mut self, id: SessionId, then: Then, success: bool) {
        match then {
            Then::Nothing => {}
            Then::Reply { client, request_id } => {
                let reply = success.then(|| Reply::Flush(Default::default()));
                self.reply_to_consumer(client, request_id, reply);
            }
            Then::WriteFile => self.drain_to_file(id),
            Then::Stop => self.stop_after_flush(id, success),
            Then::Clone { clone, transferred } => {
                self.clone_flushed(id, clone, transferred, success);
            }
        }
    }

    fn stop_after_flush(&mut self, id: SessionId, success: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Started {
            return;
        }
        session.flushes.final_outcome = Some(if success {
            FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED
        } else {
            FinalFlushOutcome::FINAL_FLUSH_FAILED
        });
        if session.consumer.is_some() {
            self.disable_tracing(id, false);
        } else {
            self.free_session(id, None);
        }
    }

    /// Nobody will confirm any more: whoever waits is told so.
    pub(crate) fn fail_pending_flushes(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for pending in std::mem::take(&mut session.flushes.pending).into_values() {
            self.timers.cancel(pending.timer);
            if let Then::Reply { client, request_id } = pending.then {
                self.reply_to_consumer(client, request_id, None);
            }
        }
    }

    pub(crate) fn arm_periodic_flush(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if let FlushPlan::Every(period) = session.flush_plan {
            let delay = aligned_delay_ms(&self.now, period);
            self.set_timer(TimeBase::Monotonic, delay, Timer::PeriodicFlush(id));
        }
    }

    pub(crate) fn periodic_flush_tick(&mut self, id: SessionId) {
        if self
            .sessions
            .get(&id)
            .is_some_and(|session| session.state == State::Started)
        {
            self.arm_periodic_flush(id);
            self.flush(id, 0, by_service(FlushReason::Periodic), Then::Nothing);
        }
    }

    pub(crate) fn arm_clear_state(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let period = session
            .config
            .incremental_state_config
            .clear_period_ms
            .unwrap_or(0);
        if period > 0 {
            let delay = aligned_delay_ms(&self.now, period.into());
            self.set_timer(TimeBase::Monotonic, delay, Timer::ClearState(id));
        }
    }

    /// Tells producers to repeat what they told once, for traces read from the middle.
    pub(crate) fn clear_state_tick(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.state != State::Started {
            return;
        }
        let mut asked: BTreeMap<ProducerId, Vec<InstanceId>> = BTreeMap::new();
        for (&(producer, instance), state) in session.instances.iter() {
            if state.clears_state {
                asked.entry(producer).or_default().push(instance);
            }
        }
        self.arm_clear_state(id);
        for (producer, data_source_ids) in asked {
            let command = ClearIncrementalState {
                data_source_ids,
                ..Default::default()
            };
            self.command_producer(producer, command);
        }
    }
}
