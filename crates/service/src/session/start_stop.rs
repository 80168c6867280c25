//! The start of a session, and the ways in which it ends.

use std::collections::BTreeSet;

use super::config::{first_wait_ms, stop_timeout_ms};
use super::events::encode_sources;
use super::instance::InstanceState;
use super::steps::AfterScrape;
use super::{End, EventKind, Session, SessionState};
use crate::command::{Command, Waiting};
use crate::context::Context;
use crate::ids::ProducerId;
use crate::limits::{DEFAULT_SNAPSHOT_INTERVAL_MS, MAX_SLOW_LISTED, SLOW_END_MS, SLOW_START_MS};
use crate::producer::{Awaited, Patience};
use crate::timers::{TimeBase, Timer, aligned_delay_ms};

/// Returns the clock for a duration of the config.
fn time_base(counts_suspend: Option<bool>) -> TimeBase {
    match counts_suspend {
        Some(true) => TimeBase::Boottime,
        _ => TimeBase::Monotonic,
    }
}

impl Session {
    /// Starts a configured session. Does nothing in any other state.
    pub(crate) fn start(&mut self, cx: &mut Context) {
        if self.state != SessionState::Configured {
            return;
        }
        let now = cx.now;
        self.state = SessionState::Started;
        self.started_realtime = Some(now.realtime);
        if self.snapshots_clocks() {
            self.initial_snapshot = Some(now);
        }
        self.record(&now, EventKind::TracingStarted, false);
        self.announce(cx);
        self.snapshot_tick(cx);
        let duration = u64::from(self.config.duration_ms.unwrap_or(0));
        if duration > 0 {
            let base = time_base(self.config.prefer_suspend_clock_for_duration);
            self.set_timer(cx, base, duration, Timer::Duration);
        }
        self.arm_file_write(cx);
        self.arm_periodic_flush(cx);
        self.arm_clear_state(cx);
        for key in self.instances.all_keys() {
            self.start_instance(cx, key);
        }
        self.check_all_started(cx);
        if self.owner.client.is_some() {
            self.set_timer(cx, TimeBase::Monotonic, SLOW_START_MS, Timer::SlowStart);
        }
    }

    /// Requests the periodic clock snapshot, synchronisation marker and statistics.
    pub(super) fn snapshot_tick(&mut self, cx: &mut Context) {
        if self.state != SessionState::Started {
            return;
        }
        self.progress.tick();
        if self.snapshots_clocks() {
            self.snapshots.insert(&cx.now);
        }
        let builtin = &self.config.builtin_data_sources;
        let interval = match builtin.snapshot_interval_ms.unwrap_or(0) {
            0 => DEFAULT_SNAPSHOT_INTERVAL_MS,
            ms => ms.into(),
        };
        let base = time_base(builtin.prefer_suspend_clock_for_snapshot);
        let delay = aligned_delay_ms(&cx.now, interval);
        self.set_timer(cx, base, delay, Timer::Snapshot);
    }

    /// Returns true if the owner waits for the start of all data sources, and some have not
    /// reported it.
    fn awaits_start(&self) -> bool {
        self.state == SessionState::Started && !self.all_started && self.owner.client.is_some()
    }

    /// Notes, once, that all data sources have started.
    pub(super) fn check_all_started(&mut self, cx: &mut Context) {
        if !self.awaits_start() || !self.instances.all_started() {
            return;
        }
        self.all_started = true;
        self.record(&cx.now, EventKind::AllDataSourcesStarted, true);
        if let Some(consumer) = cx.consumers.observer(self.owner.client) {
            consumer.note_all_started();
        }
    }

    /// Records the data sources that have still not started, for the trace.
    pub(super) fn report_slow_start(&mut self, cx: &mut Context) {
        if !self.awaits_start() {
            return;
        }
        let all = self.instances.values();
        let slow = all.filter(|instance| instance.state() != InstanceState::Started);
        let names = slow.map(|instance| instance.names());
        let details = encode_sources(names.take(MAX_SLOW_LISTED));
        let kind = EventKind::SlowStartingDataSources;
        self.events.record_details(cx.now.boottime, kind, details);
    }

    /// Flushes producers and stops at the end of the config's duration.
    pub(super) fn duration_passed(&mut self, cx: &mut Context) {
        if self.state == SessionState::Started && !self.ends_by_trigger() {
            self.flush_and_stop(cx);
        }
    }

    /// Stops recording. With `immediate`, confirmations of producers are not awaited.
    pub(crate) fn disable(&mut self, cx: &mut Context, immediate: bool) {
        let immediate = immediate || self.state == SessionState::Configured;
        match self.state {
            SessionState::Disabled | SessionState::Cloned => return,
            SessionState::Stopping if !immediate => return,
            SessionState::Stopping => return self.finish_stop(cx),
            SessionState::Configured | SessionState::Started => {}
        }
        // From here on, a confirmation of a start is late.
        self.state = SessionState::Stopping;
        self.note_late_starts(cx);
        for key in self.instances.all_keys() {
            let is_awaited = cx.producers.patience(key.0, Awaited::Stop) != Patience::None;
            self.stop_instance(cx, key, immediate || !is_awaited);
        }
        if immediate || self.instances.all_stopped() {
            self.finish_stop(cx);
        } else {
            self.announce(cx);
            let timeout = stop_timeout_ms(&self.config).into();
            let first = first_wait_ms(self.config.data_source_stop_timeout_ms, timeout);
            if first < timeout {
                self.set_timer(cx, TimeBase::Monotonic, first, Timer::FirstStopWait);
            }
            self.set_timer(cx, TimeBase::Monotonic, timeout, Timer::StopTimeout);
            self.watch_end(cx);
        }
    }

    /// Notes the producers whose data sources should have started by now.
    pub(super) fn note_late_starts(&self, cx: &mut Context) {
        let now = cx.now.boottime;
        let all = self.instances.iter();
        let late = all.filter(|(_, instance)| instance.is_late_to_start(now));
        let producers: BTreeSet<ProducerId> = late.map(|((producer, _), _)| *producer).collect();
        for producer in producers {
            cx.producers.miss_ack(producer, now);
        }
    }

    /// Stops waiting for producers that have not proved that they confirm stops.
    pub(super) fn first_stop_wait_over(&mut self, cx: &mut Context) {
        self.stop_waiting(cx, |patience| patience != Patience::Full);
        self.finish_if_all_stopped(cx);
    }

    pub(super) fn stop_timed_out(&mut self, cx: &mut Context) {
        if self.state == SessionState::Stopping {
            self.stop_waiting(cx, |_| true);
            self.finish_stop(cx);
        }
    }

    /// Regards the data sources of producers with this patience as stopped.
    fn stop_waiting(&mut self, cx: &mut Context, ends: impl Fn(Patience) -> bool) {
        let mut missed = BTreeSet::new();
        for key in self.instances.all_keys() {
            let instance = self.instances.get(&key);
            let stops = instance.is_some_and(|one| one.state() == InstanceState::Stopping);
            if stops && ends(cx.producers.patience(key.0, Awaited::Stop)) {
                missed.insert(key.0);
                self.set_instance_state(cx, key, InstanceState::Stopped);
            }
        }
        for producer in missed {
            cx.producers.miss_ack(producer, cx.now.boottime);
        }
    }

    pub(super) fn finish_if_all_stopped(&mut self, cx: &mut Context) {
        if self.state == SessionState::Stopping && self.instances.all_stopped() {
            self.finish_stop(cx);
        }
    }

    /// Sets a timer for a report about a slow end.
    pub(super) fn watch_end(&mut self, cx: &mut Context) {
        let watch = (self.id, Timer::SlowEnd);
        cx.timers.cancel_if(|timer| *timer == watch);
        self.set_timer(cx, TimeBase::Monotonic, SLOW_END_MS, Timer::SlowEnd);
    }

    /// Reports the data sources that delay the end of the session.
    pub(super) fn report_slow_end(&mut self, cx: &mut Context) {
        let stop = self.state == SessionState::Stopping;
        let mut sources = Vec::new();
        for (&(producer, _), instance) in self.instances.iter() {
            let is_awaited = if stop {
                instance.state() != InstanceState::Stopped
            } else {
                self.flushes.last_waits_for(producer)
            };
            if is_awaited && sources.len() < MAX_SLOW_LISTED {
                let (producer, source) = instance.names();
                sources.push((producer.to_vec(), source.to_vec()));
            }
        }
        if !sources.is_empty() {
            let waiting = Waiting {
                session: self.id.get(),
                stop,
                sources,
            };
            cx.commands.push(Command::ReportWaiting { waiting });
        }
    }

    /// Collects the last packets, then ends the session.
    fn finish_stop(&mut self, cx: &mut Context) {
        if self.scraping.stops() {
            return;
        }
        for key in self.instances.all_keys() {
            self.set_instance_state(cx, key, InstanceState::Stopped);
        }
        // Pending flushes may still be confirmed, and clones be made.
        let goes_on = |timer: &Timer| {
            matches!(
                timer,
                Timer::FirstFlushWait(..) | Timer::FlushTimeout(..) | Timer::CloneTrigger(..)
            )
        };
        cx.timers
            .cancel_if(|(session, timer)| *session == self.id && !goes_on(timer));
        self.scrape(cx, AfterScrape::Stop);
    }

    /// Ends the session after the last packets were collected, and finishes its file, if there is
    /// one.
    pub(super) fn stop_scraped(&mut self, cx: &mut Context) {
        let now = cx.now;
        self.state = SessionState::Disabled;
        self.announce(cx);
        if self.is_retiring() {
            cx.producers.forbid(&self.buffers);
        }
        self.gone.record(&mut self.events, now.boottime);
        self.record(&now, EventKind::TracingDisabled, true);
        self.progress.ask_for_stats();
        self.drain_to_file(cx);
        self.notify_if_over(cx);
    }

    /// Notifies the consumer of the session's end, once its file is complete.
    pub(crate) fn notify_if_over(&mut self, cx: &mut Context) {
        if self.state != SessionState::Disabled || self.writes_into_file() {
            return;
        }
        match self.end {
            End::Over => {}
            End::Retiring {
                client,
                end_request,
            } => {
                self.end = End::Over;
                // The consumer may be gone.
                if let Some(client) = client.filter(|client| cx.consumers.get(*client).is_some()) {
                    cx.reply_session_ended(client, end_request, self.error.clone());
                }
            }
            End::Alive => {
                let Some(client) = self.owner.client else {
                    return;
                };
                let consumer = cx.consumers.existing(client);
                if let Some(request_id) = consumer.and_then(|c| c.take_end_request()) {
                    cx.reply_session_ended(client, Some(request_id), self.error.clone());
                }
            }
        }
    }

    /// Ends the session for good, as FreeBuffers does. Its data is lost, except packets for its
    /// file, which are still written. `error` is reported to its consumer.
    pub(crate) fn free(&mut self, cx: &mut Context, error: Option<String>) {
        if self.is_retiring() {
            return;
        }
        if error.is_some() {
            self.error = error;
        }
        if self.state == SessionState::Cloned {
            self.state = SessionState::Disabled;
            self.announce(cx);
        }
        self.fail_clones(cx);
        self.fail_scraped_flushes(cx);
        self.disable(cx, true);
        self.fail_pending_flushes(cx);
        let client = self.owner.client.take();
        self.owner.detach_key = None;
        self.instances.clear();
        let mut end_request = None;
        if let Some(consumer) = client.and_then(|client| cx.consumers.existing(client)) {
            consumer.leave_session();
            end_request = consumer.take_end_request();
        }
        self.end = End::Retiring {
            client,
            end_request,
        };
        cx.live_sessions -= 1;
        if self.state == SessionState::Disabled {
            cx.producers.forbid(&self.buffers);
        }
        self.notify_if_over(cx);
    }

    /// Frees the session of a consumer that is gone.
    pub(crate) fn free_abandoned(&mut self, cx: &mut Context) {
        self.owner.client = None;
        self.forget_requester();
        self.free(cx, None);
    }
}
