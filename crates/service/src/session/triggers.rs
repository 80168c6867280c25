//! Triggers: names that producers activate, on which sessions start, stop or are cloned.

use std::collections::{BTreeMap, VecDeque};

use ferretto_proto::observable_events::CloneTriggerHit;
use ferretto_proto::trace_config::trigger_config::TriggerMode;

use super::config::trigger_mode;
use super::{Session, SessionState};
use crate::context::Context;
use crate::ids::ProducerId;
use crate::limits::{MAX_PENDING_HITS, MAX_RECEIVED_TRIGGERS};
use crate::matching::Pattern;
use crate::timers::{TimeBase, Timer};

/// A trigger that a session received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedTrigger {
    /// `CLOCK_BOOTTIME`.
    pub(crate) timestamp: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) producer_name: Vec<u8>,
    pub(crate) producer_uid: u32,
    pub(crate) delay_ms: u64,
}

/// A session's triggers.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    /// The producers that may activate each trigger of the config; `None` allows all.
    patterns: Vec<Option<Pattern>>,
    /// Set once a trigger was received.
    hit: bool,
    /// The last received triggers.
    received: VecDeque<ReceivedTrigger>,
    /// The number of triggers in `received` that have been emitted.
    emitted: usize,
    /// The clone triggers whose delay is not over.
    delayed: BTreeMap<u64, ReceivedTrigger>,
    last_delayed: u64,
}

impl Triggers {
    pub(super) fn new(patterns: Vec<Option<Pattern>>) -> Self {
        Self {
            patterns,
            ..Self::default()
        }
    }

    /// Returns the size of the names of received triggers, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let all = self.received.iter().chain(self.delayed.values());
        all.map(|one| one.name.len() + one.producer_name.len())
            .sum()
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.patterns.iter().flatten()
    }

    fn receive(&mut self, trigger: ReceivedTrigger) {
        self.hit = true;
        if self.received.len() >= MAX_RECEIVED_TRIGGERS {
            self.received.pop_front();
            self.emitted = self.emitted.saturating_sub(1);
        }
        self.received.push_back(trigger);
    }

    /// Returns true if a producer of this name may activate the trigger of this index.
    fn may_activate(&self, index: usize, producer_name: &[u8]) -> bool {
        match self.patterns.get(index) {
            Some(Some(pattern)) => pattern.matches(producer_name),
            _ => true,
        }
    }

    /// Keeps a clone trigger until its delay is over, and returns its number; `None` if there are
    /// too many.
    fn delay(&mut self, trigger: ReceivedTrigger) -> Option<u64> {
        if self.delayed.len() >= MAX_PENDING_HITS {
            return None;
        }
        self.last_delayed += 1;
        self.delayed.insert(self.last_delayed, trigger);
        Some(self.last_delayed)
    }

    /// Returns the triggers of a clone, which emits all of them again.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            hit: self.hit,
            received: self.received.clone(),
            ..Self::default()
        }
    }

    /// Clears the received triggers, which a clone contains.
    pub(super) fn forget_received(&mut self) {
        self.received.clear();
        self.emitted = 0;
    }

    /// Takes the triggers that were not emitted yet, in order.
    pub(super) fn take_new(&mut self) -> impl Iterator<Item = &ReceivedTrigger> {
        let new = std::mem::replace(&mut self.emitted, self.received.len());
        self.received.iter().skip(new)
    }
}

impl Session {
    /// Returns the session's action on an activated trigger; `None` if the trigger has no effect on
    /// the session. `count` is the number of recent activations.
    pub(crate) fn heed_trigger(
        &self,
        cx: &mut Context,
        producer: ProducerId,
        name: &[u8],
        count: u32,
    ) -> Option<ReceivedTrigger> {
        if self.is_retiring() || self.cloned.is_some() {
            return None;
        }
        let producer = cx.producers.get(producer)?;
        let mut triggers = self.config.trigger_config.triggers.iter().enumerate();
        let (index, trigger) =
            triggers.find(|(_, t)| t.name.as_deref().unwrap_or_default() == name)?;
        if !self.triggers.may_activate(index, producer.name()) {
            return None;
        }
        // The random number is drawn even without a probability, so that one config does not change
        // the random numbers of others.
        if cx.rng.next_unit() < trigger.skip_probability.unwrap_or(0.0) {
            return None;
        }
        let limit = trigger.max_per_24_h.unwrap_or(0);
        if limit > 0 && count >= limit {
            return None;
        }
        Some(ReceivedTrigger {
            timestamp: cx.now.boottime,
            name: name.to_vec(),
            producer_name: producer.name().to_vec(),
            producer_uid: producer.peer().uid,
            delay_ms: trigger.stop_delay_ms.unwrap_or(0).into(),
        })
    }

    /// Carries out the config's action on a received trigger.
    pub(crate) fn trigger_hit(&mut self, cx: &mut Context, trigger: ReceivedTrigger) {
        if self.snapshots_clocks() {
            self.snapshots.insert(&cx.now);
        }
        let first = !self.triggers.hit;
        let delay_ms = trigger.delay_ms;
        self.triggers.receive(trigger.clone());
        match trigger_mode(&self.config) {
            Some(TriggerMode::START_TRACING) if self.state == SessionState::Configured => {
                self.set_duration(delay_ms as u32);
                self.start(cx);
            }
            Some(TriggerMode::STOP_TRACING) if first => {
                self.set_timer(cx, TimeBase::Monotonic, delay_ms, Timer::TriggerStop);
            }
            Some(TriggerMode::CLONE_SNAPSHOT) => {
                if let Some(hit) = self.triggers.delay(trigger) {
                    self.set_timer(cx, TimeBase::Monotonic, delay_ms, Timer::CloneTrigger(hit));
                }
            }
            _ => {}
        }
    }

    /// Ends the session, since the delay of its first stop trigger is over.
    pub(super) fn trigger_stop_due(&mut self, cx: &mut Context) {
        match self.state {
            SessionState::Started => self.flush_and_stop(cx),
            SessionState::Configured => self.disable(cx, false),
            _ => {}
        }
    }

    /// Asks the session's consumer to clone it, since the delay of a clone trigger is over.
    pub(super) fn clone_trigger_due(&mut self, cx: &mut Context, hit: u64) {
        let Some(trigger) = self.triggers.delayed.remove(&hit) else {
            return;
        };
        let hit = CloneTriggerHit {
            tracing_session_id: Some(self.id.get() as i64),
            trigger_name: Some(trigger.name),
            producer_name: Some(trigger.producer_name),
            producer_uid: Some(trigger.producer_uid),
            boot_time_ns: Some(trigger.timestamp),
            trigger_delay_ms: Some(trigger.delay_ms),
            ..Default::default()
        };
        if let Some(consumer) = cx.consumers.observer(self.owner.client) {
            consumer.note_clone_trigger(hit);
        }
    }

    /// Ends the session without data, since no start trigger came in time.
    pub(super) fn start_trigger_timed_out(&mut self, cx: &mut Context) {
        if self.state == SessionState::Configured {
            self.disable(cx, false);
        }
    }

    /// Starts the timeout of a session that waits for triggers. Call it after the data sources are
    /// set up, since they get the config's duration.
    pub(crate) fn arm_trigger_timeout(&mut self, cx: &mut Context) {
        let triggers = &*self.config.trigger_config;
        let timeout_ms = triggers.trigger_timeout_ms.unwrap_or(0);
        match trigger_mode(&self.config) {
            None | Some(TriggerMode::UNSPECIFIED) => {}
            Some(TriggerMode::START_TRACING) => {
                let delay = timeout_ms.into();
                self.set_timer(cx, TimeBase::Monotonic, delay, Timer::TriggerTimeout);
            }
            Some(TriggerMode::STOP_TRACING | TriggerMode::CLONE_SNAPSHOT) => {
                self.set_duration(timeout_ms);
            }
        }
    }

    /// Returns true if a received trigger already determines the end of the session.
    pub(super) fn ends_by_trigger(&self) -> bool {
        self.triggers.hit && trigger_mode(&self.config) == Some(TriggerMode::STOP_TRACING)
    }

    /// Returns true if the session has no readable data: it waits for a trigger, or is only read
    /// through clones.
    pub(super) fn withholds_data(&self) -> bool {
        if self.cloned.is_some() {
            return false;
        }
        let waits = !self.config.trigger_config.triggers.is_empty() && !self.triggers.hit;
        waits || trigger_mode(&self.config) == Some(TriggerMode::CLONE_SNAPSHOT)
    }

    /// Changes the duration, which producers that connect later get as well.
    fn set_duration(&mut self, duration_ms: u32) {
        self.config.duration_ms = Some(duration_ms);
        for source in &mut self.sources {
            source.instance_config = None;
        }
    }
}
