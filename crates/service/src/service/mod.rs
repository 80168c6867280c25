//! The state machine's outside: events in, commands out, time.

mod admit;
mod attach;
mod enable;
mod inventory;
mod memory;
mod output_path;
mod owner;
mod state_query;

pub(crate) use admit::max_sessions;
pub(crate) use enable::Destination;
pub use inventory::Inventory;
pub(crate) use state_query::StateQueries;

use std::collections::{BTreeMap, VecDeque};

use crate::clocks::Clocks;
use crate::command::Command;
use crate::consumer::Consumer;
use crate::event::{ClientId, Event, FileId};
use crate::limits::{BufferId, FlushId, InstanceId, ProducerId, SessionId};
use crate::options::ServiceOptions;
use crate::pool::BufferPool;
use crate::priority::Priority;
use crate::producer::{Producer, ProducerConnection};
use crate::registry::Registry;
use crate::relay::Relay;
use crate::rng::Rng;
use crate::session::{Session, TriggerHistory};
use crate::timers::{TimeBase, TimerKey, Timers};

/// The tracing service.
#[derive(Debug)]
pub struct Service {
    pub(crate) options: ServiceOptions,
    pub(crate) rng: Rng,
    /// The time of the event being handled.
    pub(crate) now: Clocks,
    pub(crate) commands: VecDeque<Command>,
    pub(crate) timers: Timers<Timer>,
    pub(crate) producer_connections: BTreeMap<ClientId, ProducerConnection>,
    pub(crate) producers: BTreeMap<ProducerId, Producer>,
    /// Those among the producer connections that are of relays.
    pub(crate) relays: BTreeMap<ClientId, Relay>,
    pub(crate) consumers: BTreeMap<ClientId, Consumer>,
    /// Something happened that an observer may have to be told.
    pub(crate) observed: bool,
    pub(crate) registry: Registry,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) buffers: BufferPool,
    pub(crate) last: LastIds,
    /// While set, only producers of the service's own user may connect and record.
    pub(crate) lockdown: bool,
    /// What the driver was asked to run at.
    pub(crate) priority: Option<Priority>,
    /// When unattended sessions of each name last began, `CLOCK_BOOTTIME`, by the name's hash.
    pub(crate) cooldown: BTreeMap<u64, u64>,
    pub(crate) trigger_history: TriggerHistory,
    /// Chunks and patches refused before they reached a buffer, since the service began.
    pub(crate) chunks_discarded: u64,
    /// Where chunks are copied to before they are looked at.
    pub(crate) scratch: Vec<u8>,
    pub(crate) patches_discarded: u64,
}

/// The last number handed out of each kind.
#[derive(Debug, Default)]
pub(crate) struct LastIds {
    pub(crate) producer: ProducerId,
    pub(crate) session: u64,
    pub(crate) instance: InstanceId,
    pub(crate) flush: FlushId,
    pub(crate) file: u64,
    pub(crate) clone: u64,
}

/// What is to be done when a deadline passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Duration(SessionId),
    Snapshot(SessionId),
    FileWrite(SessionId),
    PeriodicFlush(SessionId),
    ClearState(SessionId),
    SlowStart(SessionId),
    FlushTimeout(SessionId, FlushId),
    StopTimeout(SessionId),
    SlowEnd(SessionId),
    TriggerTimeout(SessionId),
    TriggerStop(SessionId),
    /// Of the clone trigger with this number in the session.
    CloneTrigger(SessionId, u64),
}

impl Timer {
    pub(crate) fn session(self) -> SessionId {
        match self {
            Self::Duration(id)
            | Self::Snapshot(id)
            | Self::FileWrite(id)
            | Self::PeriodicFlush(id)
            | Self::ClearState(id)
            | Self::SlowStart(id)
            | Self::FlushTimeout(id, _)
            | Self::StopTimeout(id)
            | Self::SlowEnd(id)
            | Self::TriggerTimeout(id)
            | Self::TriggerStop(id)
            | Self::CloneTrigger(id, _) => id,
        }
    }
}

impl Service {
    /// A service with no clients.
    pub fn new(options: ServiceOptions) -> Self {
        Self {
            rng: Rng::new(options.seed),
            now: Clocks::default(),
            commands: VecDeque::new(),
            timers: Timers::new(),
            producer_connections: BTreeMap::new(),
            producers: BTreeMap::new(),
            relays: BTreeMap::new(),
            consumers: BTreeMap::new(),
            observed: false,
            registry: Registry::new(options.quotas.clone()),
            sessions: BTreeMap::new(),
            buffers: BufferPool::default(),
            last: LastIds::default(),
            lockdown: false,
            priority: None,
            cooldown: BTreeMap::new(),
            trigger_history: TriggerHistory::default(),
            chunks_discarded: 0,
            scratch: Vec::new(),
            patches_discarded: 0,
            options,
        }
    }

    /// Takes note of one event. Commands that follow from it are then in [`Self::poll_command`].
    ///
    /// Never panics, whatever the event; events that make no sense (a client nobody announced, an
    /// answer to no command) are ignored.
    pub fn handle(&mut self, now: &Clocks, event: Event) {
        self.now = *now;
        match event {
            Event::ProducerConnected { client, peer } => self.producer_connected(client, peer),
            Event::ConsumerConnected { client, peer } => {
                self.consumers.insert(client, Consumer::new(peer));
            }
            Event::ProducerRequest {
                client,
                request_id,
                request,
                fd,
            } => {
                self.producer_request(client, request_id, request, fd);
            }
            Event::ConsumerRequest {
                client,
                request_id,
                request,
                fd,
            } => {
                self.consumer_request(client, request_id, request, fd);
            }
            Event::RelayRequest {
                client,
                request_id,
                request,
            } => {
                self.relay_request(client, request_id, request);
            }
            Event::Disconnected { client } => {
                self.relays.remove(&client);
                self.producer_disconnected(client);
                self.consumer_disconnected(client);
            }
            Event::SharedMemoryReady { client, region } => {
                self.shared_memory_answered(client, Some(region));
            }
            Event::SharedMemoryFailed { client } => self.shared_memory_answered(client, None),
            Event::PrioritySet { client } => self.priority_answered(client, Ok(())),
            Event::PriorityRefused { client, error } => {
                self.priority_answered(client, Err(error));
            }
            Event::ConsumerDrained { client } => self.consumer_drained(client),
            Event::FileOpened { file } => self.file_opened(file, Ok(())),
            Event::FileWritten { file, bytes } => self.file_written(file, bytes),
            Event::FileFailed { file, error } => self.file_failed(file, error),
        }
        self.report_vm_aborts();
        self.deliver_observed();
    }

    /// The next thing for the driver to do, in order; `None` when there is nothing left.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When [`Self::handle_timeout`] must be called next, as a `CLOCK_BOOTTIME` reading in
    /// nanoseconds; `None` if nothing is waited for.
    ///
    /// Some deadlines are on a clock that stops during suspend; after one, ask again.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.timers.next_boottime(&self.now)
    }

    /// Does what is due. Harmless if nothing is.
    pub fn handle_timeout(&mut self, now: &Clocks) {
        self.now = *now;
        while let Some(timer) = self.timers.pop_due(now) {
            if !self.sessions.contains_key(&timer.session()) {
                continue;
            }
            match timer {
                Timer::Duration(id) => self.duration_passed(id),
                Timer::Snapshot(id) => self.snapshot_tick(id),
                Timer::FileWrite(id) => self.file_write_tick(id),
                Timer::PeriodicFlush(id) => self.periodic_flush_tick(id),
                Timer::ClearState(id) => self.clear_state_tick(id),
                Timer::SlowStart(id) => self.report_slow_start(id),
                Timer::FlushTimeout(id, flush) => self.flush_timed_out(id, flush),
                Timer::StopTimeout(id) => self.stop_timed_out(id),
                Timer::SlowEnd(id) => self.report_slow_end(id),
                Timer::TriggerTimeout(id) => self.start_trigger_timed_out(id),
                Timer::TriggerStop(id) => self.trigger_stop_due(id),
                Timer::CloneTrigger(id, hit) => self.clone_trigger_due(id, hit),
            }
        }
        self.deliver_observed();
    }

    pub(crate) fn set_timer(&mut self, base: TimeBase, delay_ms: u64, timer: Timer) -> TimerKey {
        self.timers.set(&self.now, base, delay_ms, timer)
    }

    pub(crate) fn new_file_id(&mut self) -> FileId {
        self.last.file += 1;
        FileId(self.last.file)
    }

    /// Whether producers of this user may record now.
    pub(crate) fn may_record(&self, uid: u32) -> bool {
        !self.lockdown || uid == self.options.uid
    }

    /// The session's buffer ids, none if it does not exist.
    pub(crate) fn buffers_of(&self, session: SessionId) -> Vec<BufferId> {
        self.sessions
            .get(&session)
            .map(|s| s.buffers.clone())
            .unwrap_or_default()
    }
}
