//! One tracing session: what it records, where to, and how far it has come.

mod change;
mod clone;
mod clone_error;
mod concurrent;
mod events;
mod file;
mod flush;
mod gone;
mod instance_set;
mod instances;
mod packets;
mod pipeline;
mod read;
mod start_stop;
mod stats;
mod stream;
pub(crate) mod triggers;
pub(crate) mod validate;
mod vms;

use std::collections::BTreeMap;

use ferretto_proto::TraceConfig;
use ferretto_proto::trace_stats::FinalFlushOutcome;

use crate::buffer::Identity;
use crate::clocks::Clocks;
use crate::compress::Compressor;
use crate::event::ClientId;
use crate::limits::{BufferId, FlushId, ProducerId};
use crate::packet::SequenceIds;
use crate::priority::Priority;
use crate::relay::ToldMachines;
use crate::snapshot::SnapshotRing;

pub(crate) use clone::{Cloned, PendingClone};
pub(crate) use concurrent::{ConcurrentEvent, ConcurrentEvents};
pub(crate) use events::{EventKind, EventLog};
pub(crate) use file::Output;
pub(crate) use flush::{FlushPlan, PendingFlush};
pub(crate) use gone::Gone;
pub(crate) use instance_set::Instances;
pub(crate) use instances::{Instance, InstanceState, Key as InstanceKey};
pub(crate) use pipeline::SessionFilter;
pub(crate) use stream::ReadStream;
pub(crate) use triggers::{TriggerHistory, Triggers};
pub(crate) use validate::Source;

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Buffers and data sources are set up, nothing is recorded yet.
    Configured,
    Started,
    /// Told to stop; some data sources have not confirmed.
    Stopping,
    /// Over. Its buffers remain readable until it is freed.
    Disabled,
    /// A copy of another session, to be read.
    Cloned,
}

/// One tracing session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) state: State,
    /// When it came into that state, `CLOCK_BOOTTIME`.
    pub(crate) state_since: u64,
    /// Set if it is a copy of another session, also once it is freed.
    pub(crate) cloned: Option<Cloned>,
    /// Clones of it that are being made.
    pub(crate) clones: BTreeMap<u64, PendingClone>,
    pub(crate) config: TraceConfig,
    /// One entry for each of the config's data sources.
    pub(crate) sources: Vec<Source>,
    /// Indices of the config's data sources, by name.
    pub(crate) source_names: BTreeMap<Vec<u8>, Vec<usize>>,
    /// Who it belongs to; `None` while detached.
    pub(crate) consumer: Option<ClientId>,
    pub(crate) consumer_uid: u32,
    /// The name it is picked up by again, while detached.
    pub(crate) detach_key: Option<Vec<u8>>,
    pub(crate) uuid: Uuid,
    /// What it wants the service to run at.
    pub(crate) priority: Option<Priority>,
    /// In the order of the config.
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) instances: Instances,
    /// Who each producer is that took part.
    pub(crate) senders: BTreeMap<ProducerId, Identity>,
    /// Every instance was seen started at the same time, at least once.
    pub(crate) all_started: bool,
    pub(crate) initial_snapshot: Option<Clocks>,
    pub(crate) snapshots: SnapshotRing,
    /// `CLOCK_REALTIME` at the start.
    pub(crate) started_realtime: Option<u64>,
    pub(crate) events: EventLog,
    /// What other sessions did, if the config asks for it.
    pub(crate) concurrent: ConcurrentEvents,
    pub(crate) progress: ReadProgress,
    pub(crate) sequences: SequenceIds,
    /// What may be in the trace, if not everything.
    pub(crate) filter: Option<SessionFilter>,
    pub(crate) compressor: Option<Compressor>,
    /// Packets of producers that were dropped for being malformed or claiming the service's fields.
    pub(crate) invalid_packets: u64,
    pub(crate) triggers: Triggers,
    pub(crate) flush_plan: FlushPlan,
    pub(crate) flushes: Flushes,
    pub(crate) gone: Gone,
    pub(crate) output: Option<Output>,
    /// What went wrong, for the reply that says that the session ended.
    pub(crate) error: Option<String>,
    /// Set once freed, while the rest of the output file is still being written: to be told then.
    pub(crate) retiring: Option<Retiring>,
}

/// Identity of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uuid {
    pub(crate) msb: i64,
    pub(crate) lsb: i64,
}

/// Who waits for a freed session to be really over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retiring {
    pub(crate) client: Option<ClientId>,
    pub(crate) end_request: Option<u64>,
}

/// What of the service's own packets has been read out or is due.
#[derive(Debug, Default)]
pub(crate) struct ReadProgress {
    /// The packets at the beginning of every trace were handed out.
    pub(crate) began: bool,
    pub(crate) initial_snapshot_given: bool,
    pub(crate) sync_marker_due: bool,
    pub(crate) stats_due: bool,
    /// The buffer the next batch begins with: the one behind that which filled the last.
    pub(crate) next_buffer: usize,
    /// Machines that were told of.
    pub(crate) machines: ToldMachines,
}

/// Counters of flushes and those still waited for.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) pending: BTreeMap<FlushId, PendingFlush>,
    pub(crate) requested: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) final_outcome: Option<FinalFlushOutcome>,
}

impl Session {
    /// Whether it was freed and only its file is left to finish.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.is_some()
    }

    pub(crate) fn writes_into_file(&self) -> bool {
        self.output.is_some()
    }

    pub(crate) fn flush_timeout_ms(&self) -> u64 {
        match self.config.flush_timeout_ms.unwrap_or(0) {
            0 => crate::limits::DEFAULT_FLUSH_TIMEOUT_MS,
            ms => ms.into(),
        }
    }

    pub(crate) fn stop_timeout_ms(&self) -> u32 {
        match self.config.data_source_stop_timeout_ms.unwrap_or(0) {
            0 => crate::limits::DEFAULT_STOP_TIMEOUT_MS,
            ms => ms,
        }
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.config
            .unique_session_name
            .as_deref()
            .unwrap_or_default()
    }

    pub(crate) fn snapshots_clocks(&self) -> bool {
        !self
            .config
            .builtin_data_sources
            .disable_clock_snapshotting
            .unwrap_or(false)
    }

    /// Remembers that something happened, for the trace.
    pub(crate) fn record(&mut self, now: &Clocks, kind: EventKind, with_snapshot: bool) {
        if with_snapshot && self.snapshots_clocks() {
            self.snapshots.insert(now);
        }
        self.events.record(now.boottime, kind);
    }
}
