//! Flushes: ask producers to commit their data, and wait for their confirmations.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_format::{FlushFlags, FlushInitiator, FlushReason};
use ferretto_ipc::port::consumer::Reply;
use ferretto_proto::FlushRequest;
use ferretto_proto::get_async_command_response::{ClearIncrementalState, Flush};
use ferretto_proto::trace_stats::FinalFlushOutcome;

use super::config::{BufferGroup, first_wait_ms, flush_timeout_ms};
use super::events::encode_sources;
use super::steps::{AfterFlush, AfterScrape};
use super::{EventKind, FlushPlan, Session, SessionState};
use crate::context::Context;
use crate::event::ClientId;
use crate::ids::{FlushId, InstanceId, ProducerId};
use crate::limits::{MAX_PENDING_FLUSHES, MAX_SLOW_LISTED};
use crate::producer::{Awaited, Patience};
use crate::timers::{TimeBase, Timer, TimerKey, aligned_delay_ms};

/// Returns the flags of a flush by the service itself.
const fn by_service(reason: FlushReason) -> FlushFlags {
    FlushFlags::new(FlushInitiator::Service, reason)
}

/// The instances that a command is for, by producer.
pub(super) type Asked = BTreeMap<ProducerId, Vec<InstanceId>>;

/// A flush that some producers have not confirmed.
#[derive(Debug)]
struct PendingFlush {
    /// The producers that are waited for.
    producers: BTreeSet<ProducerId>,
    /// The producers that were asked, but are not waited for any longer.
    missing: BTreeSet<ProducerId>,
    confirmed: BTreeSet<ProducerId>,
    flags: FlushFlags,
    then: AfterFlush,
    timers: Vec<TimerKey>,
}

/// The pending flushes of a session, and counters of all its flushes.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    pending: BTreeMap<FlushId, PendingFlush>,
    counts: FlushCounts,
}

/// The outcomes of flushes so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct FlushCounts {
    pub(super) requested: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) final_outcome: Option<FinalFlushOutcome>,
}

impl Flushes {
    /// Returns the flushes of a clone: none is pending, and `all_flushed` is the outcome of the
    /// last one.
    pub(super) fn duplicate(&self, all_flushed: bool) -> Self {
        let mut clone = Self {
            pending: BTreeMap::new(),
            counts: self.counts,
        };
        clone.set_final_outcome(all_flushed);
        clone
    }

    pub(super) fn counts(&self) -> FlushCounts {
        self.counts
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns true if this producer has confirmed a flush that ends the session and waits for
    /// others.
    pub(super) fn has_last_data_of(&self, producer: ProducerId) -> bool {
        self.pending.values().any(|pending| {
            let is_last = pending.flags.reason() == FlushReason::Stop;
            is_last && pending.confirmed.contains(&producer)
        })
    }

    /// Returns true if a flush that ends the session waits for this producer.
    pub(super) fn last_waits_for(&self, producer: ProducerId) -> bool {
        self.pending.values().any(|pending| {
            let is_last = pending.flags.reason() == FlushReason::Stop;
            is_last && pending.producers.contains(&producer)
        })
    }

    /// Notes that a producer confirmed all flushes up to this one. Returns the flushes that wait
    /// for no other producer, and true if one waited for this producer.
    fn confirm(&mut self, producer: ProducerId, up_to: FlushId) -> (Vec<FlushId>, bool) {
        let (mut done, mut is_awaited) = (Vec::new(), false);
        for (flush, pending) in self.pending.range_mut(..=up_to) {
            let was_missing = pending.missing.remove(&producer);
            let was_awaited = pending.producers.remove(&producer);
            if was_missing || was_awaited {
                pending.confirmed.insert(producer);
            }
            if was_awaited {
                is_awaited = true;
                if pending.producers.is_empty() {
                    done.push(*flush);
                }
            }
        }
        (done, is_awaited)
    }

    fn count(&mut self, success: bool) {
        self.counts.succeeded += u64::from(success);
        self.counts.failed += u64::from(!success);
    }

    fn set_final_outcome(&mut self, success: bool) {
        self.counts.final_outcome = Some(if success {
            FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED
        } else {
            FinalFlushOutcome::FINAL_FLUSH_FAILED
        });
    }
}

impl Session {
    /// Flushes on the consumer's request.
    pub(crate) fn flush_for(
        &mut self,
        cx: &mut Context,
        client: ClientId,
        request_id: Option<u64>,
        request: &FlushRequest,
    ) {
        let timeout_ms = request.timeout_ms.unwrap_or(0).into();
        let then = AfterFlush::Reply { client, request_id };
        let flags = FlushFlags(request.flags.unwrap_or(0));
        self.flush(cx, timeout_ms, flags, then);
    }

    pub(super) fn flush_before_writing(&mut self, cx: &mut Context) {
        self.flush(
            cx,
            0,
            by_service(FlushReason::Periodic),
            AfterFlush::WriteFile,
        );
    }

    /// Flushes producers, then ends the session.
    pub(super) fn flush_and_stop(&mut self, cx: &mut Context) {
        self.flush(cx, 0, by_service(FlushReason::Stop), AfterFlush::Stop);
    }

    /// Asks every producer of the session to commit. `timeout_ms` 0 means the session's own
    /// timeout.
    fn flush(&mut self, cx: &mut Context, timeout_ms: u64, flags: FlushFlags, then: AfterFlush) {
        self.record(&cx.now, EventKind::FlushStarted, false);
        let asked = self.instances_to_flush(cx);
        self.flush_instances(cx, timeout_ms, flags, asked, then);
    }

    /// Begins one of the flushes before a clone.
    pub(super) fn flush_for_clone(
        &mut self,
        cx: &mut Context,
        clone: u64,
        group: BufferGroup,
        asked: Asked,
        for_bugreport: bool,
    ) {
        let flags = by_service(FlushReason::Clone);
        let flags = if for_bugreport {
            flags.for_bugreport()
        } else {
            flags
        };
        self.flush_instances(cx, 0, flags, asked, AfterFlush::Clone { clone, group });
    }

    fn flush_instances(
        &mut self,
        cx: &mut Context,
        timeout_ms: u64,
        flags: FlushFlags,
        asked: Asked,
        then: AfterFlush,
    ) {
        if self.state != SessionState::Started || self.pending_flushes() > MAX_PENDING_FLUSHES {
            return self.after_flush(cx, then, false);
        }
        self.events.forget(EventKind::LastFlushSlowDataSources);
        self.flushes.counts.requested += 1;
        let (timeout_ms, first_ms) = match timeout_ms {
            0 => {
                let timeout_ms = flush_timeout_ms(&self.config);
                let first_ms = first_wait_ms(self.config.flush_timeout_ms, timeout_ms);
                (timeout_ms, first_ms)
            }
            ms => (ms, ms),
        };
        let flush = cx.ids.next_flush();
        if asked.is_empty() {
            return self.flush_done(cx, then, true);
        }
        self.note_late_starts(cx);
        let patience_of = |id: &ProducerId| cx.producers.patience(*id, Awaited::Flush);
        let all = asked.keys().copied();
        let (producers, missing): (BTreeSet<_>, BTreeSet<_>) =
            all.partition(|id| patience_of(id) != Patience::None);
        let is_short = producers
            .iter()
            .any(|id| patience_of(id) == Patience::Short);
        let base = TimeBase::Monotonic;
        let mut timers = Vec::new();
        if !producers.is_empty() {
            timers.push(cx.set_timer(self.id, base, timeout_ms, Timer::FlushTimeout(flush)));
            if is_short && first_ms < timeout_ms {
                let first = Timer::FirstFlushWait(flush);
                timers.push(cx.set_timer(self.id, base, first_ms, first));
            }
        }
        if flags.reason() == FlushReason::Stop {
            self.watch_end(cx);
        }
        let pending = PendingFlush {
            producers,
            missing,
            confirmed: BTreeSet::new(),
            flags,
            then,
            timers,
        };
        let is_over = pending.producers.is_empty();
        self.flushes.pending.insert(flush, pending);
        for (producer, data_source_ids) in asked {
            let command = Flush {
                data_source_ids,
                request_id: Some(flush),
                flags: Some(flags.0),
                ..Default::default()
            };
            cx.command_producer(producer, command);
            if let Some(acks) = cx.producers.acks(producer) {
                acks.ask_to_flush(flush, cx.now.boottime);
            }
        }
        if is_over {
            self.end_flush(cx, flush);
        }
    }

    /// Returns the instances to flush. A producer that the service cannot scrape scrapes itself,
    /// and is asked even if none of its instances wants flushes.
    fn instances_to_flush(&self, cx: &Context) -> Asked {
        let mut asked = Asked::new();
        for (&(producer, id), instance) in self.instances.iter() {
            let scrapes_itself = || {
                let producer = cx.producers.get(producer);
                producer.is_some_and(|producer| producer.scrapes_itself())
            };
            if !instance.no_flush() {
                asked.entry(producer).or_default().push(id);
            } else if scrapes_itself() {
                asked.entry(producer).or_default();
            }
        }
        asked
    }

    /// Handles a producer's confirmation of this flush and all earlier ones.
    pub(crate) fn flush_acked(&mut self, cx: &mut Context, producer: ProducerId, flush: FlushId) {
        let (done, is_awaited) = self.flushes.confirm(producer, flush);
        if let Some(acks) = cx.producers.acks(producer) {
            acks.flushed(flush, cx.now.boottime, is_awaited);
        }
        for flush in done {
            self.end_flush(cx, flush);
        }
    }

    /// Stops waiting for a producer that is gone.
    pub(crate) fn forget_in_flushes(&mut self, cx: &mut Context, producer: ProducerId) {
        self.flush_acked(cx, producer, FlushId::MAX);
    }

    /// Stops waiting for producers that have not proved that they confirm flushes.
    pub(super) fn first_flush_wait_over(&mut self, cx: &mut Context, flush: FlushId) {
        self.stop_waiting_for_flush(cx, flush, |patience| patience != Patience::Full);
    }

    pub(super) fn flush_timed_out(&mut self, cx: &mut Context, flush: FlushId) {
        self.stop_waiting_for_flush(cx, flush, |_| true);
    }

    fn stop_waiting_for_flush(
        &mut self,
        cx: &mut Context,
        flush: FlushId,
        ends: impl Fn(Patience) -> bool,
    ) {
        let Some(pending) = self.flushes.pending.get_mut(&flush) else {
            return;
        };
        let is_over = |id: &ProducerId| ends(cx.producers.patience(*id, Awaited::Flush));
        let missed: Vec<ProducerId> = pending.producers.extract_if(.., |id| is_over(id)).collect();
        pending.missing.extend(&missed);
        let is_over = pending.producers.is_empty();
        for producer in missed {
            cx.producers.miss_ack(producer, cx.now.boottime);
        }
        if is_over {
            self.end_flush(cx, flush);
        }
    }

    /// Ends a flush that waits for no producer any longer. The step after another one may have
    /// ended the session, and with it this one.
    fn end_flush(&mut self, cx: &mut Context, flush: FlushId) {
        let Some(pending) = self.flushes.pending.remove(&flush) else {
            return;
        };
        for timer in pending.timers {
            cx.timers.cancel(timer);
        }
        let success = pending.missing.is_empty();
        let reason = pending.flags.reason();
        if !success && matches!(reason, FlushReason::Stop | FlushReason::Clone) {
            let all = self.instances.iter();
            let slow = all.filter(|((producer, _), _)| pending.missing.contains(producer));
            let names = slow.map(|(_, instance)| instance.names());
            let details = encode_sources(names.take(MAX_SLOW_LISTED));
            let kind = EventKind::LastFlushSlowDataSources;
            self.events.record_details(cx.now.boottime, kind, details);
        }
        self.flush_done(cx, pending.then, success);
    }

    /// Ends a flush: the packets are in the buffers, or will not come.
    fn flush_done(&mut self, cx: &mut Context, then: AfterFlush, success: bool) {
        self.scrape(cx, AfterScrape::Flush { then, success });
    }

    /// Continues a flush after scraping.
    pub(super) fn flush_scraped(&mut self, cx: &mut Context, then: AfterFlush, success: bool) {
        self.record(&cx.now, EventKind::AllDataSourcesFlushed, true);
        self.flushes.count(success);
        self.after_flush(cx, then, success);
    }

    fn after_flush(&mut self, cx: &mut Context, then: AfterFlush, success: bool) {
        match then {
            AfterFlush::Nothing => {}
            AfterFlush::Reply { client, request_id } => {
                let reply = success.then(|| Reply::Flush(Default::default()));
                cx.reply(client, request_id, reply);
            }
            AfterFlush::WriteFile => self.drain_to_file(cx),
            AfterFlush::Stop => self.stop_after_flush(cx, success),
            AfterFlush::Clone { clone, group } => self.clone_flushed(cx, clone, group, success),
        }
    }

    fn stop_after_flush(&mut self, cx: &mut Context, success: bool) {
        if self.state != SessionState::Started {
            return;
        }
        self.flushes.set_final_outcome(success);
        if self.owner.client.is_some() {
            self.disable(cx, false);
        } else {
            self.free(cx, None);
        }
    }

    /// Fails all pending flushes, which can no longer be confirmed.
    pub(super) fn fail_pending_flushes(&mut self, cx: &mut Context) {
        for pending in std::mem::take(&mut self.flushes.pending).into_values() {
            for timer in pending.timers {
                cx.timers.cancel(timer);
            }
            self.fail_flush(cx, pending.then);
        }
    }

    /// Fails a flush. The session does not take the step after it.
    pub(super) fn fail_flush(&self, cx: &mut Context, then: AfterFlush) {
        if let AfterFlush::Reply { client, request_id } = then {
            cx.reply(client, request_id, None);
        }
    }

    pub(super) fn arm_periodic_flush(&mut self, cx: &mut Context) {
        if let FlushPlan::Every(period) = self.flush_plan {
            let delay = aligned_delay_ms(&cx.now, period);
            self.set_timer(cx, TimeBase::Monotonic, delay, Timer::PeriodicFlush);
        }
    }

    pub(super) fn periodic_flush_tick(&mut self, cx: &mut Context) {
        if self.state == SessionState::Started {
            self.arm_periodic_flush(cx);
            self.flush(
                cx,
                0,
                by_service(FlushReason::Periodic),
                AfterFlush::Nothing,
            );
        }
    }

    pub(super) fn arm_clear_state(&mut self, cx: &mut Context) {
        let incremental = &self.config.incremental_state_config;
        let period = incremental.clear_period_ms.unwrap_or(0);
        if period > 0 {
            let delay = aligned_delay_ms(&cx.now, period.into());
            self.set_timer(cx, TimeBase::Monotonic, delay, Timer::ClearState);
        }
    }

    /// Tells producers to repeat their incremental state, for traces read from the middle.
    pub(super) fn clear_state_tick(&mut self, cx: &mut Context) {
        if self.state != SessionState::Started {
            return;
        }
        let mut asked = Asked::new();
        for (&(producer, id), instance) in self.instances.iter() {
            if instance.clears_state() {
                asked.entry(producer).or_default().push(id);
            }
        }
        self.arm_clear_state(cx);
        for (producer, data_source_ids) in asked {
            let command = ClearIncrementalState {
                data_source_ids,
                ..Default::default()
            };
            cx.command_producer(producer, command);
        }
    }
}
