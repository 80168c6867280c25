//! Triggers: names producers call out, on which sessions start, end, or are to be cloned.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ferretto_proto::TraceConfig;
use ferretto_proto::observable_events::CloneTriggerHit;
use ferretto_proto::trace_config::trigger_config::TriggerMode;

use super::{Session, State};
use crate::limits::{
    MAX_PENDING_HITS, MAX_RECEIVED_TRIGGERS, MAX_TRIGGER_HISTORY, ProducerId, SessionId,
    TRIGGER_WINDOW_NS,
};
use crate::matching::Pattern;
use crate::quota::User;
use crate::service::{Service, Timer};
use crate::timers::TimeBase;

/// What a session's triggers do; `None` if the config gives no mode.
pub(crate) fn trigger_mode(config: &TraceConfig) -> Option<TriggerMode> {
    let triggers = &*config.trigger_config;
    if triggers.use_clone_snapshot_if_available.unwrap_or(false) {
        return Some(TriggerMode::CLONE_SNAPSHOT);
    }
    triggers
        .trigger_mode
        .filter(|mode| *mode != TriggerMode::UNSPECIFIED)
}

/// A trigger a session was hit by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// `CLOCK_BOOTTIME`.
    pub(crate) timestamp: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) producer_name: Vec<u8>,
    pub(crate) producer_uid: u32,
    pub(crate) delay_ms: u64,
}

/// A session's triggers.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    /// Who may activate each trigger of the config; `None` is everyone.
    patterns: Vec<Option<Pattern>>,
    /// Any was ever received.
    hit: bool,
    /// The last ones received.
    received: VecDeque<Received>,
    /// How many of `received` are in what was read out.
    emitted: usize,
    /// Those whose delay before a clone is asked for is not over.
    delayed: BTreeMap<u64, Received>,
    last_delayed: u64,
}

impl Triggers {
    pub(crate) fn new(patterns: Vec<Option<Pattern>>) -> Self {
        Self {
            patterns,
            ..Self::default()
        }
    }

    /// Bytes of the names of those received.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.received.iter().chain(self.delayed.values());
        all.map(|one| one.name.len() + one.producer_name.len())
            .sum()
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.patterns.iter().flatten()
    }

    fn receive(&mut self, trigger: Received) {
        self.hit = true;
        if self.received.len() >= MAX_RECEIVED_TRIGGERS {
            self.received.pop_front();
            self.emitted = self.emitted.saturating_sub(1);
        }
        self.received.push_back(trigger);
    }

    /// The same for a clone, which tells of all of them anew.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            hit: self.hit,
            received: self.received.clone(),
            ..Self::default()
        }
    }

    /// Begins the list of those received anew, as a clone has told of them.
    pub(crate) fn forget_received(&mut self) {
        self.received.clear();
        self.emitted = 0;
    }

    /// Hands out what was not handed out before, in order.
    pub(crate) fn take_new(&mut self) -> impl Iterator<Item = &Received> {
        let new = std::mem::replace(&mut self.emitted, self.received.len());
        self.received.iter().skip(new)
    }
}

impl Session {
    /// Whether it still waits for a trigger, or only ever has clones: there is nothing to be read.
    pub(crate) fn withholds_data(&self) -> bool {
        if self.cloned.is_some() {
            return false;
        }
        let waits = !self.config.trigger_config.triggers.is_empty() && !self.triggers.hit;
        waits || trigger_mode(&self.config) == Some(TriggerMode::CLONE_SNAPSHOT)
    }
}

/// When triggers of each name were last heeded, by any session.
#[derive(Debug, Default)]
pub(crate) struct TriggerHistory {
    /// Oldest first.
    entries: VecDeque<Activation>,
    counts: BTreeMap<u64, u32>,
    by_user: BTreeMap<User, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Activation {
    /// `CLOCK_BOOTTIME`.
    time: u64,
    /// Hash of the name.
    name: u64,
    user: User,
}

impl TriggerHistory {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How often the name was heeded during the last 24 hours.
    fn count(&mut self, now: u64, name: u64) -> u32 {
        let since = now.saturating_sub(TRIGGER_WINDOW_NS);
        while self.entries.front().is_some_and(|entry| entry.time < since) {
            self.forget_oldest();
        }
        self.counts.get(&name).copied().unwrap_or(0)
    }

    /// How many triggers of the user were heeded lately.
    fn count_of(&self, user: User) -> usize {
        self.by_user.get(&user).copied().unwrap_or(0)
    }

    fn add(&mut self, time: u64, name: u64, user: User) {
        if self.entries.len() >= MAX_TRIGGER_HISTORY {
            self.forget_oldest();
        }
        self.entries.push_back(Activation { time, name, user });
        *self.by_user.entry(user).or_default() += 1;
        *self.counts.entry(name).or_default() += 1;
    }

    fn forget_oldest(&mut self) {
        let Some(Activation { name, user, .. }) = self.entries.pop_front() else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&name);
            }
        }
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl Service {
    /// A producer activates triggers by name. Names no session has are ignored. Returns whether its user
    /// may still do that; if not, the names that are left are not looked at.
    pub(crate) fn activate_triggers(&mut self, producer: ProducerId, names: &[Vec<u8>]) -> bool {
        let Some(user) = self.producers.get(&producer).map(|p| User::of(&p.peer)) else {
            return false;
        };
        for name in names {
            let key = hash(name);
            let count = self.trigger_history.count(self.now.boottime, key);
            if self.trigger_history.count_of(user) >= self.options.quotas.triggers_per_user {
                return false;
            }
            let mut heeded = false;
            let sessions: Vec<_> = self.sessions.keys().copied().collect();
            for id in sessions {
                if let Some(trigger) = self.heed(id, producer, name, count) {
                    heeded = true;
                    self.trigger_hit(id, trigger);
                }
            }
            if heeded {
                self.trigger_history.add(self.now.boottime, key, user);
            }
        }
        true
    }

    /// What the session makes of the trigger; `None` if it is not for it. `count` is how often it
    /// was heeded lately.
    fn heed(
        &mut self,
        id: SessionId,
        producer: ProducerId,
        name: &[u8],
        count: u32,
    ) -> Option<Received> {
        let session = self.sessions.get(&id)?;
        if session.is_retiring() || session.cloned.is_some() {
            return None;
        }
        let producer = self.producers.get(&producer)?;
        let mut triggers = session.config.trigger_config.triggers.iter().enumerate();
        let (index, trigger) =
            triggers.find(|(_, t)| t.name.as_deref().unwrap_or_default() == name)?;
        if let Some(Some(pattern)) = session.triggers.patterns.get(index)
            && !pattern.matches(&producer.name)
        {
            return None;
        }
        // Drawn even if nothing is ever skipped, so that configs do not change each other's luck.
        if self.rng.next_unit() < trigger.skip_probability.unwrap_or(0.0) {
            return None;
        }
        let limit = trigger.max_per_24_h.unwrap_or(0);
        if limit > 0 && count >= limit {
            return None;
        }
        Some(Received {
            timestamp: self.now.boottime,
            name: name.to_vec(),
            producer_name: producer.name.to_vec(),
            producer_uid: producer.peer.uid,
            delay_ms: trigger.stop_delay_ms.unwrap_or(0).into(),
        })
    }

    fn trigger_hit(&mut self, id: SessionId, trigger: Received) {
        let now = self.now;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.snapshots_clocks() {
            session.snapshots.insert(&now);
        }
        let first = !session.triggers.hit;
        let delay_ms = trigger.delay_ms;
        session.triggers.receive(trigger.clone());
        match trigger_mode(&session.config) {
            Some(TriggerMode::START_TRACING) if session.state == State::Configured => {
                session.set_duration(delay_ms as u32);
                self.start_tracing(id);
            }
            Some(TriggerMode::STOP_TRACING) if first => {
                self.set_timer(TimeBase::Monotonic, delay_ms, Timer::TriggerStop(id));
            }
            Some(TriggerMode::CLONE_SNAPSHOT) => self.delay_hit(id, trigger),
            _ => {}
        }
    }

    fn delay_hit(&mut self, id: SessionId, trigger: Received) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let triggers = &mut session.triggers;
        if triggers.delayed.len() >= MAX_PENDING_HITS {
            return;
        }
        triggers.last_delayed += 1;
        let (hit, delay_ms) = (triggers.last_delayed, trigger.delay_ms);
        triggers.delayed.insert(hit, trigger);
        let timer = Timer::CloneTrigger(id, hit);
        self.set_timer(TimeBase::Monotonic, delay_ms, timer);
    }

    /// The delay of the first stop trigger is over.
    pub(crate) fn trigger_stop_due(&mut self, id: SessionId) {
        match self.sessions.get(&id).map(|session| session.state) {
            Some(State::Started) => self.flush_and_stop(id),
            Some(State::Configured) => self.disable_tracing(id, false),
            _ => {}
        }
    }

    /// The delay of a clone trigger is over: the session's consumer is asked to clone it.
    pub(crate) fn clone_trigger_due(&mut self, id: SessionId, hit: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(trigger) = session.triggers.delayed.remove(&hit) else {
            return;
        };
        let hit = CloneTriggerHit {
            tracing_session_id: Some(id.get() as i64),
            trigger_name: Some(trigger.name),
            producer_name: Some(trigger.producer_name),
            producer_uid: Some(trigger.producer_uid),
            boot_time_ns: Some(trigger.timestamp),
            trigger_delay_ms: Some(trigger.delay_ms),
            ..Default::default()
        };
        self.notify_clone_trigger(id, hit);
    }

    /// No start trigger came in time: the session ends without data.
    pub(crate) fn start_trigger_timed_out(&mut self, id: SessionId) {
        if self
            .sessions
            .get(&id)
            .is_some_and(|session| session.state == State::Configured)
        {
            self.disable_tracing(id, false);
        }
    }

    /// Arranges for the end of waiting. To be called once the data sources are set up: what they are
    /// told of the duration is what the config said.
    pub(crate) fn arm_trigger_timeout(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let triggers = &*session.config.trigger_config;
        let timeout_ms = triggers.trigger_timeout_ms.unwrap_or(0);
        match trigger_mode(&session.config) {
            None | Some(TriggerMode::UNSPECIFIED) => {}
            Some(TriggerMode::START_TRACING) => {
                let timer = Timer::TriggerTimeout(id);
                self.set_timer(TimeBase::Monotonic, timeout_ms.into(), timer);
            }
            Some(TriggerMode::STOP_TRACING | TriggerMode::CLONE_SNAPSHOT) => {
                session.set_duration(timeout_ms);
            }
        }
    }

    /// Whether the end of the session's time is of no interest any more, a trigger ending it anyway.
    pub(crate) fn ends_by_trigger(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| {
            session.triggers.hit && trigger_mode(&session.config) == Some(TriggerMode::STOP_TRACING)
        })
    }
}

impl Session {
    /// Changes how long it is to record. Producers that come later are told so.
    fn set_duration(&mut self, duration_ms: u32) {
        self.config.duration_ms = Some(duration_ms);
        for source in &mut self.sources {
            source.instance_config = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded_and_forgets_after_a_day() {
        let mut history = TriggerHistory::default();
        let user = User::of(&crate::event::Peer::default());
        history.add(1, 7, user);
        history.add(2, 7, user);
        assert_eq!(history.count(1 + TRIGGER_WINDOW_NS, 7), 2);
        assert_eq!(history.count(2 + TRIGGER_WINDOW_NS, 7), 1);
        assert_eq!(history.count(3 + TRIGGER_WINDOW_NS, 7), 0);
        for name in 0..=MAX_TRIGGER_HISTORY as u64 {
            history.add(5, name, user);
        }
        assert_eq!(history.count(5, 0), 0);
        assert_eq!(history.count(5, 1), 1);
        assert_eq!(history.counts.len(), MAX_TRIGGER_HISTORY);
        assert_eq!(history.count_of(user), MAX_TRIGGER_HISTORY);
    }
}
