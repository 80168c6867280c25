//! One tracing session: its data sources, its destination and its state.
//!
//! A session makes its own transitions. Each method gets the state outside the session as a
//! [`Context`]. The session keeps news for other sessions until they are collected
//! ([`Session::take_announced`], [`Session::take_finished_clones`], [`Session::is_over`]).

mod change;
mod clone;
mod clone_error;
mod concurrent;
mod config;
mod events;
mod file;
mod flush;
mod flush_plan;
mod gone;
mod instance;
mod instance_set;
mod instances;
mod packets;
mod pipeline;
mod read;
mod scrape;
mod start_stop;
mod stats;
mod steps;
mod triggers;
mod validate;
mod vms;

use std::collections::BTreeMap;

use ferretto_proto::{Message as _, TraceConfig};

use crate::buffer::Identity;
use crate::clocks::Clocks;
use crate::compress::Compressor;
use crate::context::Context;
use crate::event::{ClientId, FileId};
use crate::ids::{BufferId, InstanceKey, ProducerId, SessionId};
use crate::matching::{Pattern, Weight};
use crate::packet::SequenceIds;
use crate::priority::Priority;
use crate::snapshot::SnapshotRing;
use crate::timers::{TimeBase, Timer};
use clone::{Cloned, Clones};
use concurrent::{ConcurrentEvent, ConcurrentEvents};
use events::{EventKind, EventLog};
use file::Output;
use flush::Flushes;
use flush_plan::FlushPlan;
use gone::Gone;
use instance_set::Instances;
use packets::Uuid;
use pipeline::SessionFilter;
use read::ReadProgress;
use scrape::Scraping;
use triggers::{ReceivedTrigger, Triggers};
use validate::Source;

pub(crate) use clone::{CloneOrder, clone_trigger};
pub(crate) use clone_error::{CloneError, Requester, reply_not_cloned};
pub(crate) use config::trigger_mode;
pub(crate) use validate::{
    CheckedConfig, EnableError, check_buffer_sizes, check_config, check_late, check_output,
};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// Buffers and data sources are set up; recording has not started.
    Configured,
    Started,
    /// Stopping; some data sources have not confirmed.
    Stopping,
    /// Ended. Its buffers remain readable until it is freed.
    Disabled,
    /// A copy of another session, to be read.
    Cloned,
}

/// One tracing session.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    state: SessionState,
    /// The `CLOCK_BOOTTIME` of the last transition.
    state_since: u64,
    /// Transitions that were not announced to other sessions yet.
    announced: Vec<ConcurrentEvent>,
    /// Set if this is a copy of another session, even after it was freed.
    cloned: Option<Cloned>,
    /// The clones of this session in progress.
    clones: Clones,
    config: TraceConfig,
    /// One entry for each of the config's data sources.
    sources: Vec<Source>,
    /// Indices of the config's data sources, by name.
    source_names: BTreeMap<Vec<u8>, Vec<usize>>,
    owner: Owner,
    uuid: Uuid,
    /// The priority that it requests for the service.
    priority: Option<Priority>,
    /// The buffers, in the order of the config.
    buffers: Vec<BufferId>,
    instances: Instances,
    /// The identity of each producer that has taken part.
    senders: BTreeMap<ProducerId, Identity>,
    /// Set once all instances were started at the same time.
    all_started: bool,
    initial_snapshot: Option<Clocks>,
    snapshots: SnapshotRing,
    /// `CLOCK_REALTIME` at the start.
    started_realtime: Option<u64>,
    events: EventLog,
    /// Transitions of other sessions, if the config asks for them.
    concurrent: ConcurrentEvents,
    progress: ReadProgress,
    sequences: SequenceIds,
    /// The filter that packets have to pass, if there is one.
    filter: Option<SessionFilter>,
    compressor: Option<Compressor>,
    /// The number of producers' packets dropped because they were malformed or claimed the
    /// service's fields.
    invalid_packets: u64,
    triggers: Triggers,
    flush_plan: FlushPlan,
    flushes: Flushes,
    scraping: Scraping,
    gone: Gone,
    output: Option<Output>,
    /// The error that ended the session, for the reply about its end.
    error: Option<String>,
    end: End,
}

/// The consumer that owns a session.
#[derive(Debug)]
struct Owner {
    /// `None` while detached.
    client: Option<ClientId>,
    uid: u32,
    /// The key that attaches to it again, while detached.
    detach_key: Option<Vec<u8>>,
}

impl Owner {
    fn new(client: ClientId, uid: u32) -> Self {
        Self {
            client: Some(client),
            uid,
            detach_key: None,
        }
    }
}

/// The progress of the end of a session.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Not freed.
    Alive,
    /// Freed, but the rest of the output file is still being written. This client is notified then.
    Retiring {
        client: Option<ClientId>,
        end_request: Option<u64>,
    },
    /// Ready to be removed.
    Over,
}

impl Session {
    /// Creates a session for a checked config, with these buffers.
    pub(crate) fn new(
        cx: &mut Context,
        (client, uid): (ClientId, u32),
        checked: CheckedConfig,
        buffers: Vec<BufferId>,
        file: Option<FileId>,
    ) -> Self {
        let config = checked.config;
        cx.live_sessions += 1;
        Self {
            id: cx.ids.next_session(),
            state: SessionState::Configured,
            state_since: cx.now.boottime,
            announced: Vec::new(),
            cloned: None,
            clones: Clones::default(),
            uuid: Uuid::choose(&config, &mut cx.rng),
            flush_plan: FlushPlan::choose(&config),
            priority: checked.priority,
            owner: Owner::new(client, uid),
            source_names: source_names(&config),
            output: file.map(|file| Output::new(file, &config)),
            config,
            sources: checked.sources,
            buffers,
            instances: Instances::default(),
            senders: BTreeMap::new(),
            all_started: false,
            initial_snapshot: None,
            snapshots: SnapshotRing::default(),
            started_realtime: None,
            events: EventLog::default(),
            concurrent: ConcurrentEvents::default(),
            progress: ReadProgress::default(),
            sequences: SequenceIds::new(cx.options.quotas.sequences_per_user),
            filter: checked.filter.map(SessionFilter::new),
            compressor: checked.compressor,
            invalid_packets: 0,
            triggers: Triggers::new(checked.trigger_patterns),
            flushes: Flushes::default(),
            scraping: Scraping::default(),
            gone: Gone::default(),
            error: None,
            end: End::Alive,
        }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state
    }

    pub(crate) fn config(&self) -> &TraceConfig {
        &self.config
    }

    pub(crate) fn buffers(&self) -> &[BufferId] {
        &self.buffers
    }

    pub(crate) fn uid(&self) -> u32 {
        self.owner.uid
    }

    pub(crate) fn priority(&self) -> Option<Priority> {
        self.priority
    }

    pub(crate) fn started_realtime(&self) -> Option<u64> {
        self.started_realtime
    }

    pub(crate) fn is_clone(&self) -> bool {
        self.cloned.is_some()
    }

    /// Returns true if the session was freed and only its file remains to be finished.
    pub(crate) fn is_retiring(&self) -> bool {
        !matches!(self.end, End::Alive)
    }

    /// Returns true if the session can be removed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.end, End::Over)
    }

    /// Returns true if the session has news for other sessions or is over.
    pub(crate) fn needs_follow_up(&self) -> bool {
        !self.announced.is_empty() || self.clones.are_finished() || self.is_over()
    }

    pub(crate) fn name(&self) -> &[u8] {
        config::name(&self.config)
    }

    pub(crate) fn has_instance(&self, key: InstanceKey) -> bool {
        self.instances.contains_key(&key)
    }

    pub(crate) fn instance_count(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn sequence_count(&self) -> usize {
        self.sequences.len()
    }

    pub(crate) fn pending_flushes(&self) -> usize {
        self.flushes.pending() + self.scraping.flushes()
    }

    pub(crate) fn pending_clones(&self) -> usize {
        self.clones.pending()
    }

    /// Returns the weight of its regular expressions.
    pub(crate) fn expressions(&self) -> Weight {
        let sources = self.sources.iter().flat_map(|source| &source.patterns);
        let patterns = sources.chain(self.triggers.patterns());
        let of_filter = self.filter.iter().map(SessionFilter::weight);
        patterns.map(Pattern::weight).chain(of_filter).sum()
    }

    /// Returns the memory of the state that grows with use, in bytes, without buffers and config.
    pub(crate) fn table_bytes(&self, per_entry: u64) -> u64 {
        self.clones.memory_needed()
            + self.sequences.memory()
            + self.senders.len() as u64 * per_entry
            + self.triggers.bytes() as u64
    }

    pub(crate) fn config_bytes(&self) -> u64 {
        self.config.encoded_len().into()
    }

    /// Detaches the session from its consumer, to be attached to by this key. Its EnableTracing
    /// request is never answered: the consumer that attaches gets the report of the end.
    pub(crate) fn detach(&mut self, key: Vec<u8>) {
        self.owner.client = None;
        self.owner.detach_key = Some(key);
    }

    /// Returns true if this user detached the session with this key.
    pub(crate) fn is_detached_as(&self, uid: u32, key: &[u8]) -> bool {
        self.owner.uid == uid && self.owner.detach_key.as_deref() == Some(key)
    }

    pub(crate) fn attach(&mut self, cx: &mut Context, client: ClientId) {
        self.owner.client = Some(client);
        self.owner.detach_key = None;
        self.check_all_started(cx);
    }

    /// Returns true if this consumer may read the session's packets. A session that writes into a
    /// file cannot be read, since the file gets its packets.
    pub(crate) fn is_readable_by(&self, client: ClientId) -> bool {
        self.owner.client == Some(client) && !self.writes_into_file()
    }

    /// Handles a deadline.
    pub(crate) fn timer_due(&mut self, cx: &mut Context, timer: Timer) {
        match timer {
            Timer::Duration => self.duration_passed(cx),
            Timer::Snapshot => self.snapshot_tick(cx),
            Timer::FileWrite => self.file_write_tick(cx),
            Timer::PeriodicFlush => self.periodic_flush_tick(cx),
            Timer::ClearState => self.clear_state_tick(cx),
            Timer::SlowStart => self.report_slow_start(cx),
            Timer::FlushTimeout(flush) => self.flush_timed_out(cx, flush),
            Timer::FirstFlushWait(flush) => self.first_flush_wait_over(cx, flush),
            Timer::FirstStopWait => self.first_stop_wait_over(cx),
            Timer::StopTimeout => self.stop_timed_out(cx),
            Timer::SlowEnd => self.report_slow_end(cx),
            Timer::TriggerTimeout => self.start_trigger_timed_out(cx),
            Timer::TriggerStop => self.trigger_stop_due(cx),
            Timer::CloneTrigger(hit) => self.clone_trigger_due(cx, hit),
        }
    }

    fn set_timer(&self, cx: &mut Context, base: TimeBase, delay_ms: u64, timer: Timer) {
        cx.set_timer(self.id, base, delay_ms, timer);
    }

    pub(crate) fn writes_into_file(&self) -> bool {
        self.output.is_some()
    }

    fn snapshots_clocks(&self) -> bool {
        config::snapshots_clocks(&self.config)
    }

    /// Records a lifecycle event for the trace.
    fn record(&mut self, now: &Clocks, kind: EventKind, with_snapshot: bool) {
        if with_snapshot && self.snapshots_clocks() {
            self.snapshots.insert(now);
        }
        self.events.record(now.boottime, kind);
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
