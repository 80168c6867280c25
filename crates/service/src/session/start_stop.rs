//! Starting a session, and the ways it ends.

use ferretto_wire::encode;

use super::{EventKind, InstanceState, Retiring, State};
use crate::command::{Command, Waiting};
use crate::limits::{
    DEFAULT_SNAPSHOT_INTERVAL_MS, MAX_SLOW_LISTED, SLOW_END_MS, SLOW_START_MS, SessionId,
};
use crate::service::{Service, Timer};
use crate::timers::{TimeBase, aligned_delay_ms};

impl Service {
    /// Starts a configured session; in any other state nothing happens.
    pub(crate) fn start_tracing(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Configured {
            return;
        }
        session.state = State::Started;
        session.started_realtime = Some(now.realtime);
        if session.snapshots_clocks() {
            session.initial_snapshot = Some(now);
        }
        session.record(&now, EventKind::TracingStarted, false);
        let duration = u64::from(session.config.duration_ms.unwrap_or(0));
        let counts_suspend = session
            .config
            .prefer_suspend_clock_for_duration
            .unwrap_or(false);
        let has_consumer = session.consumer.is_some();
        let keys: Vec<_> = session.instances.keys().copied().collect();

        self.state_changed(id);
        self.snapshot_tick(id);
        if duration > 0 {
            let base = if counts_suspend {
                TimeBase::Boottime
            } else {
                TimeBase::Monotonic
            };
            self.set_timer(base, duration, Timer::Duration(id));
        }
        self.arm_file_write(id);
        self.arm_periodic_flush(id);
        self.arm_clear_state(id);
        for key in keys {
            self.start_instance(id, key);
        }
        self.check_all_started(id);
        if has_consumer {
            self.set_timer(TimeBase::Monotonic, SLOW_START_MS, Timer::SlowStart(id));
        }
    }

    /// Every so often the trace gets a clock snapshot, a synchronisation marker and statistics.
    pub(crate) fn snapshot_tick(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Started {
            return;
        }
        session.progress.sync_marker_due = true;
        session.progress.stats_due = true;
        if session.snapshots_clocks() {
            session.snapshots.insert(&now);
        }
        let builtin = &session.config.builtin_data_sources;
        let interval = match builtin.snapshot_interval_ms.unwrap_or(0) {
            0 => DEFAULT_SNAPSHOT_INTERVAL_MS,
            ms => ms.into(),
        };
        let counts_suspend = builtin.prefer_suspend_clock_for_snapshot.unwrap_or(false);
        let base = if counts_suspend {
            TimeBase::Boottime
        } else {
            TimeBase::Monotonic
        };
        self.set_timer(base, aligned_delay_ms(&now, interval), Timer::Snapshot(id));
    }

    /// Notes, once, that every data source runs.
    pub(crate) fn check_all_started(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Started
            || session.all_started
            || session.consumer.is_none()
            || !session.instances.all_started()
        {
            return;
        }
        session.all_started = true;
        session.record(&now, EventKind::AllDataSourcesStarted, true);
        self.notify_all_started(id);
    }

    /// Names the data sources that still have not started, for the trace.
    pub(crate) fn report_slow_start(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.state != State::Started || session.all_started || session.consumer.is_none() {
            return;
        }
        let slow = session
            .instances
            .values()
            .filter(|i| i.state != InstanceState::Started);
        let names = slow.map(|i| (i.producer_name.as_ref(), i.name()));
        let details = encode_sources(names.take(MAX_SLOW_LISTED));
        let kind = EventKind::SlowStartingDataSources;
        session.events.record_details(now.boottime, kind, details);
    }

    /// The time the config gave is over: collect what producers hold, then stop.
    pub(crate) fn duration_passed(&mut self, id: SessionId) {
        if self
            .sessions
            .get(&id)
            .is_some_and(|session| session.state == State::Started)
            && !self.ends_by_trigger(id)
        {
            self.flush_and_stop(id);
        }
    }

    /// DisableTracing. `immediate`: confirmations of producers are not waited for.
    pub(crate) fn disable_tracing(&mut self, id: SessionId, immediate: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let immediate = immediate || session.state == State::Configured;
        match session.state {
            State::Disabled | State::Cloned => return,
            State::Stopping if !immediate => return,
            State::Stopping => return self.finish_stop(id),
            State::Configured | State::Started => {}
        }
        // From here on a start confirmation is late.
        session.state = State::Stopping;
        let timeout = u64::from(session.stop_timeout_ms());
        let keys: Vec<_> = session.instances.keys().copied().collect();
        for key in keys {
            self.stop_instance(id, key, immediate);
        }
        if immediate || self.all_stopped(id) {
            self.finish_stop(id);
        } else {
            self.state_changed(id);
            self.set_timer(TimeBase::Monotonic, timeout, Timer::StopTimeout(id));
            self.watch_end(id);
        }
    }

    pub(crate) fn stop_timed_out(&mut self, id: SessionId) {
        if self
            .sessions
            .get(&id)
            .is_some_and(|session| session.state == State::Stopping)
        {
            self.finish_stop(id);
        }
    }

    pub(crate) fn finish_if_all_stopped(&mut self, id: SessionId) {
        let stopping = self
            .sessions
            .get(&id)
            .is_some_and(|s| s.state == State::Stopping);
        if stopping && self.all_stopped(id) {
            self.finish_stop(id);
        }
    }

    /// From now on the end of a session should not take long.
    pub(crate) fn watch_end(&mut self, id: SessionId) {
        self.timers.cancel_if(|timer| *timer == Timer::SlowEnd(id));
        self.set_timer(TimeBase::Monotonic, SLOW_END_MS, Timer::SlowEnd(id));
    }

    /// Names the data sources without which the session could have ended.
    pub(crate) fn report_slow_end(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let stop = session.state == State::Stopping;
        let mut sources = Vec::new();
        for (&(producer, _), instance) in session.instances.iter() {
            let is_awaited = match stop {
                true => instance.state != InstanceState::Stopped,
                false => session.flushes.last_waits_for(producer),
            };
            if is_awaited && sources.len() < MAX_SLOW_LISTED {
                sources.push((instance.producer_name.to_vec(), instance.name().to_vec()));
            }
        }
        if !sources.is_empty() {
            let waiting = Waiting {
                session: id.get(),
                stop,
                sources,
            };
            self.commands.push_back(Command::ReportWaiting { waiting });
        }
    }

    fn all_stopped(&self, id: SessionId) -> bool {
        let session = self.sessions.get(&id);
        session.is_some_and(|session| session.instances.all_stopped())
    }

    /// The session is over: collect the last packets and finish the file, if there is one.
    fn finish_stop(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.state = State::Disabled;
        let keys: Vec<_> = session.instances.keys().copied().collect();
        self.state_changed(id);
        for key in keys {
            self.set_instance_state(id, key, InstanceState::Stopped);
        }
        // Flushes under way may still be confirmed, and clones be made.
        let goes_on =
            |timer: &Timer| matches!(timer, Timer::FlushTimeout(..) | Timer::CloneTrigger(..));
        self.timers
            .cancel_if(|timer| timer.session() == id && !goes_on(timer));
        self.scrape_all(id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.gone.record(&mut session.events, now.boottime);
            session.record(&now, EventKind::TracingDisabled, true);
            session.progress.stats_due = true;
        }
        self.finish_file(id);
        self.notify_if_over(id);
    }

    /// Tells the consumer that the session ended, once its file is complete too.
    pub(crate) fn notify_if_over(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.state != State::Disabled || session.writes_into_file() {
            return;
        }
        let error = session.error.clone();
        if let Some(Retiring {
            client,
            end_request,
        }) = session.retiring
        {
            if let Some(client) = client.filter(|client| self.consumers.contains_key(client)) {
                self.reply_session_ended(client, end_request, error);
            }
            return self.erase_session(id);
        }
        let Some(client) = session.consumer else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(&client) else {
            return;
        };
        if let Some(request_id) = consumer.end_request.take() {
            self.reply_session_ended(client, Some(request_id), error);
        }
    }

    /// FreeBuffers and all else that ends a session for good. Its data is gone, except what belongs
    /// into its file: that is still written. `error` is what its consumer is told.
    pub(crate) fn free_session(&mut self, id: SessionId, error: Option<String>) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.is_retiring() {
            return;
        }
        if error.is_some() {
            session.error = error;
        }
        if session.state == State::Cloned {
            session.state = State::Disabled;
            self.state_changed(id);
        }
        self.fail_clones(id);
        self.disable_tracing(id, true);
        self.fail_pending_flushes(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let client = session.consumer.take();
        session.detach_key = None;
        session.instances.clear();
        let mut end_request = None;
        if let Some(consumer) = client.and_then(|client| self.consumers.get_mut(&client)) {
            consumer.leave_session();
            end_request = consumer.end_request.take();
        }
        session.retiring = Some(Retiring {
            client,
            end_request,
        });
        let buffers = self.buffers_of(id);
        for producer in self.producers.values_mut() {
            for buffer in &buffers {
                producer.allowed.remove(buffer);
            }
        }
        self.notify_if_over(id);
    }

    fn erase_session(&mut self, id: SessionId) {
        self.timers.cancel_if(|timer| timer.session() == id);
        for buffer in self.buffers_of(id) {
            self.buffers.remove(buffer);
        }
        self.sessions.remove(&id);
        self.settle_priority();
    }
}

/// `TracingServiceEvent.DataSources` of producer and data source names.
pub(crate) fn encode_sources<'a>(names: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    use ferretto_proto::fields::tracing_service_event::data_sources;
    encode(|list| {
        for (producer, source) in names {
            list.nested(data_sources::DATA_SOURCE, |entry| {
                entry.bytes(data_sources::data_source::PRODUCER_NAME, producer);
                entry.bytes(data_sources::data_source::DATA_SOURCE_NAME, source);
            });
        }
    })
}
