//! The recorded command, if the trace contains one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ferretto_format::sequence::{
    FaultSink, InternedEntry, InternedStrings, PacketContext, SequenceState,
};
use ferretto_proto::fields::{
    interned_data, trace_attributes, trace_packet_defaults, track_event, track_event_defaults,
};
use ferretto_wire::Fields;

use crate::limits::{Budget, entry_bytes};
use crate::printable::printable;
use crate::threads::Threads;

/// The trace attribute with the recorded command and its arguments.
pub const COMMAND_ATTRIBUTE: &str = "ferretto.command";
/// The trace attribute with the process id of the recorded command.
pub const COMMAND_PID_ATTRIBUTE: &str = "ferretto.command.pid";

/// The maximum number of slice names in the summary.
const TOP: usize = 256;
/// The maximum number of simultaneously open slices of a track.
const MAX_OPEN: usize = 512;

/// The summary of a recorded command and its descendants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandSummary {
    /// The command with its arguments.
    pub command: String,
    /// Its process id, if known.
    pub pid: Option<i32>,
    /// Its CPU time, in nanoseconds, if the trace has context switches.
    pub cpu_ns: Option<u64>,
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

/// The command of a trace, and, if there is one, the track events of all processes.
#[derive(Debug)]
pub(super) struct Command {
    budget: Budget,
    words: Option<String>,
    pid: Option<i32>,
    events: Option<Box<Events>>,
}

impl Command {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            words: None,
            pid: None,
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
            }
        }
    }

    /// Reads the track event of a process. Does nothing if the trace has no command.
    pub(super) fn event(&mut self, pid: i32, event: &[u8], context: PacketContext<'_, SliceState>) {
        if let Some(events) = &mut self.events {
            events.event(pid, event, context);
        }
    }

    /// Returns the summary of the command. `has_switches` is true if CPU times are known.
    pub(super) fn finish(self, threads: &Threads, has_switches: bool) -> Option<CommandSummary> {
        let command = self.words?;
        let pid = self.pid.or_else(|| threads.process_named(&command));
        let pids = pid
            .map(|pid| threads.with_descendants(pid))
            .unwrap_or_default();
        let (cpu_ns, thread_count) = threads.of_processes(&pids);
        let mut summary = CommandSummary {
            command,
            pid,
            cpu_ns: has_switches.then_some(cpu_ns),
            processes: pids.len(),
            threads: thread_count,
            ..CommandSummary::default()
        };
        if let Some(events) = self.events {
            events.finish(&pids, &mut summary);
        }
        Some(summary)
    }
}

/// The part of a sequence's incremental state that concerns slices.
#[derive(Debug)]
pub(super) struct SliceState {
    names: InternedStrings,
    track: u64,
}

impl SequenceState for SliceState {
    fn new(budget: &Budget) -> Self {
        Self {
            names: InternedStrings::new(budget),
            track: 0,
        }
    }

    fn restart(&mut self) {
        self.names.clear();
        self.track = 0;
    }

    fn set_defaults(&mut self, defaults: &[u8]) {
        let event = Fields::find(trace_packet_defaults::TRACK_EVENT_DEFAULTS, defaults);
        let event = event.and_then(|event| event.as_bytes()).unwrap_or_default();
        let track = Fields::find(track_event_defaults::TRACK_UUID, event);
        self.track = track.and_then(|track| track.as_u64()).unwrap_or(0);
    }

    fn intern(&mut self, interned: &[u8], faults: FaultSink<'_>) {
        let entries = InternedEntry::all(interned);
        for entry in entries.filter(|entry| entry.table == interned_data::EVENT_NAMES) {
            let name = entry.string.unwrap_or_default();
            self.names.define(entry.table, entry.iid, name, faults);
        }
    }
}

/// An open slice: the index of its name, and its begin time.
type Open = (usize, u64);

/// The slices of all processes.
#[derive(Debug)]
struct Events {
    budget: Budget,
    open: HashMap<u64, Vec<Open>>,
    /// The number of track events by process.
    counts: BTreeMap<i32, u64>,
    /// The indices in `slices` by process and name.
    places: HashMap<(i32, Box<[u8]>), usize>,
    slices: Vec<SliceSummary>,
}

impl Events {
    fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            open: HashMap::new(),
            counts: BTreeMap::new(),
            places: HashMap::new(),
            slices: Vec::new(),
        }
    }

    fn event(&mut self, pid: i32, event: &[u8], context: PacketContext<'_, SliceState>) {
        let is_new = !self.counts.contains_key(&pid);
        if !is_new || self.budget.take(entry_bytes::<(i32, u64)>()) {
            *self.counts.entry(pid).or_default() += 1;
        }
        let Some(Ok(time)) = context.time else { return };
        let (mut kind, mut track, mut name) = (0, context.state.track, &[][..]);
        for field in Fields::new(event).map_while(Result::ok) {
            match field.number {
                track_event::TYPE => kind = field.as_u64().unwrap_or(0),
                track_event::TRACK_UUID => track = field.as_u64().unwrap_or(0),
                track_event::NAME => name = field.as_bytes().unwrap_or_default(),
                track_event::NAME_IID => {
                    let iid = field.as_u64().unwrap_or(0);
                    let known = context.state.names.get(interned_data::EVENT_NAMES, iid);
                    name = known.unwrap_or_default();
                }
                _ => {}
            }
        }
        match kind {
            1 => {
                if let Some(place) = place(
                    &mut self.places,
                    &mut self.slices,
                    &self.budget,
                    (pid, name),
                ) {
                    self.slices[place].count += 1;
                    self.begin(track, (place, time));
                }
            }
            2 => self.end(track, time),
            _ => {}
        }
    }

    fn begin(&mut self, track: u64, slice: Open) {
        let open = self.open.get(&track).map_or(0, Vec::len);
        let bytes = match open {
            0 => entry_bytes::<(u64, Vec<Open>)>(),
            _ => 2 * size_of::<Open>(),
        };
        if open < MAX_OPEN && self.budget.take(bytes) {
            self.open.entry(track).or_default().push(slice);
        }
    }

    fn end(&mut self, track: u64, time: u64) {
        let Some(open) = self.open.get_mut(&track) else {
            return;
        };
        let Some((place, began)) = open.pop() else {
            return;
        };
        let bytes = match open.is_empty() {
            true => entry_bytes::<(u64, Vec<Open>)>(),
            false => 2 * size_of::<Open>(),
        };
        if open.is_empty() {
            self.open.remove(&track);
        }
        self.budget.give_back(bytes);
        let slices = &mut self.slices[place];
        let ns = time.saturating_sub(began);
        slices.total_ns = slices.total_ns.saturating_add(ns);
        slices.max_ns = slices.max_ns.max(ns);
    }

    fn finish(mut self, pids: &BTreeSet<i32>, summary: &mut CommandSummary) {
        for (place, _) in self.open.into_values().flatten() {
            self.slices[place].unfinished += 1;
        }
        let counts = self.counts.iter().filter(|(pid, _)| pids.contains(pid));
        summary.events = counts.map(|(_, count)| count).sum();
        let mut by_name: BTreeMap<&[u8], SliceSummary> = BTreeMap::new();
        for ((_, name), place) in self
            .places
            .iter()
            .filter(|((pid, _), _)| pids.contains(pid))
        {
            let (sum, slices) = (by_name.entry(name).or_default(), &self.slices[*place]);
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

/// Returns the index for a process's slices with this name.
fn place(
    places: &mut HashMap<(i32, Box<[u8]>), usize>,
    slices: &mut Vec<SliceSummary>,
    budget: &Budget,
    (pid, name): (i32, &[u8]),
) -> Option<usize> {
    let key = (pid, Box::from(name));
    if let Some(place) = places.get(&key) {
        return Some(*place);
    }
    // The final table by name contains the name again.
    let bytes = 2 * (name.len() + size_of::<SliceSummary>());
    if !budget.take(bytes + entry_bytes::<((i32, Box<[u8]>), usize)>()) {
        return None;
    }
    places.insert(key, slices.len());
    slices.push(SliceSummary::default());
    Some(slices.len() - 1)
}
