//! The recorded command, if the trace contains one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ferretto_format::sequence::{FaultSink, InternedEntry, InternedStrings, SequenceState};
use ferretto_format::track_event::{EventState, Text};
use ferretto_proto::fields::{interned_data, trace_attributes};
use ferretto_wire::Fields;

use super::pairing::{Name, Pairing};
use super::resources::CommandResources;
use crate::limits::{Budget, entry_bytes};
use crate::printable::printable;
use crate::threads::Threads;
use crate::walk::SequenceEvent;

/// The trace attribute with the recorded command and its arguments.
pub const COMMAND_ATTRIBUTE: &str = "ferretto.command";
/// The trace attribute with the process id of the recorded command.
pub const COMMAND_PID_ATTRIBUTE: &str = "ferretto.command.pid";
/// The trace attribute with the process ids of `record -p`, separated by commas.
pub const PIDS_ATTRIBUTE: &str = "ferretto.pids";

/// The maximum number of such processes; others are ignored.
const MAX_PIDS: usize = 1 << 12;

/// The maximum number of slice names in the summary.
const TOP: usize = 256;
/// The summary of a recorded command and its descendants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandSummary {
    /// The command with its arguments.
    pub command: String,
    /// Its process id, if known.
    pub pid: Option<i32>,
    /// Its CPU time, in nanoseconds, if the trace has context switches.
    pub cpu_ns: Option<u64>,
    /// The resources that it used in its whole run, if they were recorded.
    pub resources: Option<CommandResources>,
    /// The number of its processes, including known descendants.
    pub processes: usize,
    /// The number of their threads.
    pub threads: usize,
    /// The number of their track events.
    pub events: u64,
    /// Their slices by name, in descending order of total duration.
    pub slices: Vec<SliceSummary>,
    /// The number of other slice names.
    pub more_slices: usize,
}

/// The slices with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceSummary {
    /// The name.
    pub name: String,
    /// The number of begin events.
    pub count: u64,
    /// The number of slices without an end event.
    pub unfinished: u64,
    /// The total duration of all slices with an end event, in nanoseconds; nested slices of the
    /// same name count multiple times.
    pub total_ns: u64,
    /// The longest duration, in nanoseconds.
    pub max_ns: u64,
}

impl SliceSummary {
    fn end(&mut self, duration_ns: u64) {
        self.total_ns = self.total_ns.saturating_add(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }
}

/// The command of a trace, and, if there is one, the track events of all processes.
#[derive(Debug)]
pub(super) struct Command {
    budget: Budget,
    words: Option<String>,
    pid: Option<i32>,
    /// The processes of `record -p`.
    pids: Vec<i32>,
    resources: CommandResources,
    events: Option<Box<Events>>,
}

impl Command {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            words: None,
            pid: None,
            pids: Vec::new(),
            resources: CommandResources::default(),
            events: None,
        }
    }

    /// Reads a `TraceAttributes`.
    pub(super) fn attributes(&mut self, bytes: &[u8]) {
        use trace_attributes::{ATTRIBUTE, attribute};
        for entry in Fields::new(bytes).map_while(Result::ok) {
            let Some(entry) = entry.as_bytes().filter(|_| entry.number == ATTRIBUTE) else {
                continue;
            };
            let find = |number| Fields::find(number, entry);
            let key = find(attribute::KEY).and_then(|key| key.as_bytes());
            if key == Some(COMMAND_ATTRIBUTE.as_bytes()) {
                let words = find(attribute::STRING_VALUE).and_then(|words| words.as_bytes());
                self.words = words.map(printable);
                let budget = &self.budget;
                self.events
                    .get_or_insert_with(|| Box::new(Events::new(budget)));
            } else if key == Some(COMMAND_PID_ATTRIBUTE.as_bytes()) {
                let pid = find(attribute::LONG_VALUE).and_then(|pid| pid.as_i64());
                self.pid = pid.and_then(|pid| i32::try_from(pid).ok());
            } else if key == Some(PIDS_ATTRIBUTE.as_bytes()) {
                let pids = find(attribute::STRING_VALUE).and_then(|pids| pids.as_bytes());
                let pids = std::str::from_utf8(pids.unwrap_or_default()).unwrap_or_default();
                let pids = pids.split(',').filter_map(|pid| pid.parse().ok());
                self.pids = pids.take(MAX_PIDS).collect();
            } else if let (Some(key), Some(value)) = (key, find(attribute::LONG_VALUE)) {
                self.resources.attribute(key, value.as_u64().unwrap_or(0));
            }
        }
    }

    /// Reads the track event of a process. Does nothing if the trace has no command.
    pub(super) fn event(
        &mut self,
        pid: i32,
        time: Option<u64>,
        event: &SequenceEvent<'_>,
        state: &SliceState,
    ) {
        if let Some(events) = &mut self.events {
            events.event(pid, time, event, state);
        }
    }

    /// Returns the processes of `record -p`.
    pub(super) fn pids(&self) -> &[i32] {
        &self.pids
    }

    /// Returns the process id of the command.
    pub(super) fn pid(&self, threads: &Threads) -> Option<i32> {
        let named = || threads.process_named(self.words.as_ref()?);
        self.pid.or_else(named)
    }

    /// Returns the processes of the command, or of `record -p`, and their descendants.
    pub(super) fn processes(&self, threads: &Threads) -> BTreeSet<i32> {
        let pids = self.pids.iter().copied().chain(self.pid(threads));
        threads.with_descendants(pids)
    }

    /// Returns the summary of the command with these processes. `has_switches` is true if CPU times
    /// are known.
    pub(super) fn finish(
        self,
        threads: &Threads,
        pids: BTreeSet<i32>,
        has_switches: bool,
    ) -> Option<CommandSummary> {
        let pid = self.pid(threads);
        let command = self.words?;
        let (cpu_ns, thread_count) = threads.of_processes(&pids);
        let mut summary = CommandSummary {
            command,
            pid,
            cpu_ns: has_switches.then_some(cpu_ns),
            resources: Some(self.resources).filter(|it| it.is_known()),
            processes: pids.len(),
            // Statistics of processes do not list the threads of those that end early.
            threads: thread_count.max(pids.len()),
            ..CommandSummary::default()
        };
        if let Some(events) = self.events {
            events.finish(&pids, &mut summary);
        }
        Some(summary)
    }
}

/// The part of a sequence's incremental state that concerns track events.
#[derive(Debug)]
pub(super) struct SliceState {
    names: InternedStrings,
    pub(super) event: EventState,
}

impl SequenceState for SliceState {
    fn new(budget: &Budget) -> Self {
        Self {
            names: InternedStrings::new(budget),
            event: EventState::default(),
        }
    }

    fn restart(&mut self) {
        self.names.clear();
        self.event.restart();
    }

    fn lose(&mut self) {
        self.event.lose();
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        self.event.set_defaults(defaults);
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        let entries = InternedEntry::all(interned);
        for entry in entries.filter(|entry| entry.table == interned_data::EVENT_NAMES) {
            let name = entry.string.unwrap_or_default();
            self.names.define(entry.table, entry.iid, name, faults);
        }
    }
}

/// The slices of all processes.
#[derive(Debug)]
struct Events {
    budget: Budget,
    pairing: Pairing,
    /// The number of track events by process.
    counts: BTreeMap<i32, u64>,
    /// The indices in `slices` by process and name.
    indices: HashMap<(i32, Box<[u8]>), Name>,
    slices: Vec<SliceSummary>,
}

impl Events {
    fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            pairing: Pairing::new(budget),
            counts: BTreeMap::new(),
            indices: HashMap::new(),
            slices: Vec::new(),
        }
    }

    fn event(
        &mut self,
        pid: i32,
        time: Option<u64>,
        event: &SequenceEvent<'_>,
        state: &SliceState,
    ) {
        let is_new = !self.counts.contains_key(&pid);
        if !is_new || self.budget.take(entry_bytes::<(i32, u64)>()) {
            *self.counts.entry(pid).or_default() += 1;
        }
        let Some(time) = time else { return };
        let Some(kind) = event.encoded.kind() else {
            return;
        };
        let name = match kind {
            kind if kind.begins_slice() || kind.is_complete_slice() => {
                let name = match event.encoded.name() {
                    Some(Text::Literal(name)) => name,
                    Some(Text::Interned(iid)) => {
                        let known = state.names.get(interned_data::EVENT_NAMES, iid);
                        known.unwrap_or_default()
                    }
                    None => &[],
                };
                let Some(index) = self.index(pid, name) else {
                    return;
                };
                let slices = &mut self.slices[index as usize];
                slices.count += 1;
                if let Some(duration) = event.encoded.duration() {
                    return slices.end(duration);
                }
                Some(index)
            }
            kind if kind.ends_slice() => None,
            _ => return,
        };
        let ended = self
            .pairing
            .add(event.track, time, name, !event.is_on_own_track);
        for slice in ended {
            self.slices[slice.name as usize].end(slice.duration_ns);
        }
    }

    /// Returns the index for a process's slices with this name, unless the memory is used up.
    fn index(&mut self, pid: i32, name: &[u8]) -> Option<Name> {
        let key = (pid, Box::from(name));
        if let Some(index) = self.indices.get(&key) {
            return Some(*index);
        }
        // The final table by name contains the name again.
        let bytes = 2 * (name.len() + size_of::<SliceSummary>());
        if !self
            .budget
            .take(bytes + entry_bytes::<((i32, Box<[u8]>), Name)>())
        {
            return None;
        }
        let index = Name::try_from(self.slices.len()).ok()?;
        self.indices.insert(key, index);
        self.slices.push(SliceSummary::default());
        Some(index)
    }

    fn finish(mut self, pids: &BTreeSet<i32>, summary: &mut CommandSummary) {
        let (ended, open) = self.pairing.finish();
        for slice in ended {
            self.slices[slice.name as usize].end(slice.duration_ns);
        }
        for name in open {
            self.slices[name as usize].unfinished += 1;
        }
        let counts = self.counts.iter().filter(|(pid, _)| pids.contains(pid));
        summary.events = counts.map(|(_, count)| count).sum();
        let mut by_name: BTreeMap<&[u8], SliceSummary> = BTreeMap::new();
        let of_command = self
            .indices
            .iter()
            .filter(|((pid, _), _)| pids.contains(pid));
        for ((_, name), index) in of_command {
            let sum = by_name.entry(name).or_default();
            let slices = &self.slices[*index as usize];
            sum.count += slices.count;
            sum.unfinished += slices.unfinished;
            sum.total_ns = sum.total_ns.saturating_add(slices.total_ns);
            sum.max_ns = sum.max_ns.max(slices.max_ns);
        }
        let named = by_name.into_iter().map(|(name, slices)| SliceSummary {
            name: printable(name),
            ..slices
        });
        summary.slices = named.collect();
        let size = |slices: &SliceSummary| std::cmp::Reverse((slices.total_ns, slices.count));
        summary.slices.sort_by_key(size);
        summary.more_slices = summary.slices.len().saturating_sub(TOP);
        summary.slices.truncate(TOP);
    }
}
