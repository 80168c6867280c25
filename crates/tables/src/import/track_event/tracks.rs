//! The tracks of descriptors.

use ferretto_proto::fields::track_descriptor as field;
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::Input;
use super::super::context::Context;
use super::descriptor::{Descriptor, Merging};
use super::names::{describe_chrome, name_process, name_thread};
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::track::{Dimension, EventKind, TrackSpec};

/// The maximum number of ancestors of a valid track.
const MAX_ANCESTORS: usize = 100;
/// The maximum number of descriptors.
const MAX_TRACKS: usize = 1 << 22;

/// The tracks by machine and uuid.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    by_uuid: FxHashMap<(u32, u64), Track>,
    /// The uuids that last described each thread and process.
    of_threads: FxHashMap<u32, u64>,
    of_processes: FxHashMap<u32, u64>,
    /// Sequences whose first packet was read.
    pub(super) with_first_packet: FxHashSet<u32>,
    /// The processes that wrote descriptors, from the trusted fields.
    writers: FxHashMap<(u32, u64), i64>,
}

/// A described track, and its rows.
#[derive(Debug, Clone, Default)]
struct Track {
    descriptor: Descriptor,
    resolved: Option<Resolved>,
    target: Option<Target>,
}

/// The owner of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Thread(u32),
    Process(u32),
    Nobody,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Resolved {
    pub(super) owner: Owner,
    is_counter: bool,
    is_state: bool,
    /// Set if it is the track of the thread or process itself.
    is_root: bool,
}

/// The encoded `ThreadDescriptor` of a track, and the tid that replaces the one in a sandbox.
type ThreadOfTrack<'a> = (&'a [u8], Option<i64>);

/// The rows of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Track(u32),
    Lanes(u32),
}

/// The part of a slice that an event represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Begin,
    End,
    Instant,
    /// An event that needs a track and not a group of lanes.
    Alone,
    /// A value of a state.
    State,
    /// No event: the track is the parent of another one.
    Parent,
}

impl Tracks {
    /// Adds a `TrackDescriptor`. Returns true if it remains to be parsed, and the thread in it.
    pub(super) fn describe<'a>(
        &mut self,
        cx: &mut Context,
        input: &Input<'a>,
    ) -> (bool, Option<ThreadOfTrack<'a>>) {
        let log = |cx: &mut Context, stat| {
            cx.store.log_at(stat, input.offset);
            (false, None)
        };
        let (uuid, mut descriptor, parts) = match Descriptor::read(cx, input.bytes) {
            Ok(read) => read,
            Err(stat) => return log(cx, stat),
        };
        if let Some(pid) = input.header.pid {
            self.writers.insert((cx.store.machine, uuid), pid.into());
        }
        if let Err(stat) = descriptor.read_parts(cx, &parts) {
            return log(cx, stat);
        }
        let own_tid = descriptor.tid.filter(|_| descriptor.is_sandboxed);
        self.add(cx, uuid, descriptor);
        (true, parts.thread.map(|thread| (thread, own_tid)))
    }

    fn add(&mut self, cx: &mut Context, uuid: u64, new: Descriptor) {
        if uuid == 0 && new.parent != 0 {
            let mut args = ArgSet::default();
            args.put(&mut cx.store, "parent_uuid", ArgValue::Uint(new.parent));
            let stat = Stat::track_descriptor_default_track_with_parent;
            cx.store.log(stat, None, args);
            return;
        }
        let key = (cx.store.machine, uuid);
        let is_below_limit = self.by_uuid.len() < MAX_TRACKS;
        let Some(track) = self.by_uuid.get_mut(&key) else {
            if is_below_limit {
                let track = Track {
                    descriptor: new,
                    ..Track::default()
                };
                self.by_uuid.insert(key, track);
            }
            return;
        };
        let known = &mut track.descriptor;
        if !known.is_same_track(&new) {
            fault(cx, Stat::track_descriptor_conflicting_reservation, uuid);
            return;
        }
        let is_alone = new.merging == Merging::Never;
        if !new.name.is_null() {
            if known.name.is_null() || is_alone {
                known.name = new.name;
            }
            if let (true, Some(Target::Track(row))) = (is_alone, track.target) {
                cx.store.tables.track.name.set(row, new.name);
            }
        }
    }

    /// Returns the value of a counter for a value in an event, and true if it is a difference to
    /// the last one. `None` if there is no such counter.
    #[inline]
    pub(super) fn counter_value(&self, cx: &Context, uuid: u64, value: f64) -> Option<(f64, bool)> {
        let track = self.by_uuid.get(&(cx.store.machine, uuid))?;
        let counter = track.descriptor.counter.as_ref()?;
        let value = match counter.multiplier {
            1..=i64::MAX => value * counter.multiplier as f64,
            _ => value,
        };
        Some((value, counter.is_incremental))
    }

    /// Parses a `TrackDescriptor`.
    pub(super) fn parse(&mut self, cx: &mut Context, bytes: &[u8]) {
        let uuid = Fields::find(field::UUID, bytes).and_then(|uuid| uuid.as_u64());
        let uuid = uuid.unwrap_or(0);
        if self.resolve(cx, uuid).is_none() {
            cx.store.stats.add(Stat::track_event_parser_errors, 1);
            return;
        }
        let part = |number| Fields::find(number, bytes).and_then(|part| part.as_bytes());
        if let Some(thread) = part(field::THREAD) {
            let track = self.by_uuid.get(&(cx.store.machine, uuid));
            let of = track.map(|track| &track.descriptor);
            let own_tid = of.filter(|of| of.is_sandboxed).and_then(|of| of.tid);
            name_thread(cx, thread, own_tid);
        } else if let Some(process) = part(field::PROCESS) {
            name_process(cx, process);
            if let Some(chrome) = part(field::CHROME_PROCESS) {
                describe_chrome(cx, process, chrome);
            }
        }
    }

    /// Returns the owner of a track; `None` if its ancestors are invalid.
    #[inline]
    pub(super) fn resolve(&mut self, cx: &mut Context, uuid: u64) -> Option<Resolved> {
        let track = self.by_uuid.get(&(cx.store.machine, uuid));
        match track.and_then(|track| track.resolved) {
            Some(resolved) => Some(resolved),
            None => self.find(cx, uuid),
        }
    }

    #[cold]
    fn find(&mut self, cx: &mut Context, uuid: u64) -> Option<Resolved> {
        let machine = cx.store.machine;
        let key = (machine, uuid);
        if !self.by_uuid.contains_key(&key) {
            let mut track = Track::default();
            if uuid == 0 {
                track.descriptor.name = cx.store.strings.intern("Default Track");
            }
            if self.by_uuid.len() >= MAX_TRACKS {
                return None;
            }
            self.by_uuid.insert(key, track);
        }
        if !self.has_valid_ancestors(cx, uuid) {
            return None;
        }
        let mut of = self.by_uuid.get(&key)?.descriptor.clone();
        if let Some(writer) = self.writers.get(&key).copied() {
            let outer = |cx: &mut Context, number| {
                let outer = cx.processes.outer_tid(&cx.store, writer, number);
                outer.unwrap_or(number)
            };
            of.pid = of.pid.map(|pid| outer(cx, pid));
            of.tid = of.tid.map(|tid| outer(cx, tid));
        }
        let parent = match of.parent {
            0 => None,
            parent => self.resolve(cx, parent),
        };
        let default = self.by_uuid.get(&(machine, 0));
        let are_ordered = default.map_or((false, false), |track| {
            let root = &track.descriptor;
            (root.threads_are_ordered, root.processes_are_ordered)
        });
        let (owner, is_root) = match (of.tid, of.pid) {
            (Some(tid), Some(pid)) => {
                let utid = self.own_thread(cx, uuid, tid, pid);
                if let (true, Some(rank)) = (are_ordered.0, of.rank) {
                    cx.processes.set_thread_sort_index(utid, rank.into());
                }
                (Owner::Thread(utid), true)
            }
            (_, Some(pid)) => {
                let upid = self.own_process(cx, uuid, pid);
                if let (true, Some(rank)) = (are_ordered.1, of.rank) {
                    cx.processes.set_process_sort_index(upid, rank.into());
                }
                (Owner::Process(upid), true)
            }
            _ => (parent.map_or(Owner::Nobody, |parent| parent.owner), false),
        };
        let resolved = Resolved {
            owner,
            is_counter: of.counter.is_some(),
            is_state: of.is_state,
            is_root,
        };
        self.by_uuid.get_mut(&key)?.resolved = Some(resolved);
        Some(resolved)
    }

    /// Returns the thread that only this uuid describes. A second uuid means that the tid was
    /// reused.
    fn own_thread(&mut self, cx: &mut Context, uuid: u64, tid: i64, pid: i64) -> u32 {
        let utid = cx.processes.thread_in_process(&mut cx.store, tid, pid);
        if self.of_threads.insert(utid, uuid).is_none() {
            return utid;
        }
        cx.processes.new_thread(&mut cx.store, tid, None);
        cx.processes.thread_in_process(&mut cx.store, tid, pid)
    }

    fn own_process(&mut self, cx: &mut Context, uuid: u64, pid: i64) -> u32 {
        let upid = cx.processes.process(&mut cx.store, pid);
        if self.of_processes.insert(upid, uuid).is_none() {
            return upid;
        }
        let source = ThreadNameSource::TrackDescriptor;
        let store = &mut cx.store;
        cx.processes
            .new_process(store, pid, None, None, StringId::NULL, source)
    }

    fn has_valid_ancestors(&self, cx: &mut Context, uuid: u64) -> bool {
        let (mut seen, mut current) = (Vec::new(), uuid);
        let stat = loop {
            if current == 0 {
                return true;
            }
            if seen.contains(&current) {
                break Stat::track_event_track_hierarchy_loop;
            }
            let Some(track) = self.by_uuid.get(&(cx.store.machine, current)) else {
                break Stat::track_hierarchy_missing_uuid;
            };
            seen.push(current);
            if seen.len() >= MAX_ANCESTORS {
                break Stat::track_event_track_hierarchy_too_deep;
            }
            current = track.descriptor.parent;
        };
        fault(cx, stat, uuid);
        false
    }

    /// Returns the row for an event on this track. `name` is that of the event, and `sequence` that
    /// of its packet.
    pub(super) fn row(
        &mut self,
        cx: &mut Context,
        uuid: u64,
        name: StringId,
        sequence: Option<u32>,
        part: Part,
    ) -> Option<u32> {
        let track = self.by_uuid.get(&(cx.store.machine, uuid));
        let target = match track.and_then(|track| track.target) {
            Some(target) => target,
            None => self.target(cx, uuid, name, sequence)?,
        };
        if part == Part::State && !self.resolve(cx, uuid)?.is_state {
            return None;
        }
        let group = match target {
            Target::Track(row) => return Some(row),
            Target::Lanes(group) => group,
        };
        let cookie = uuid as i64;
        let lane = match part {
            Part::Begin => cx.lanes.begin(group, cookie, super::Nesting::Nested),
            Part::End => cx.lanes.end(group, cookie),
            Part::Instant => cx.lanes.instant(group, cookie),
            Part::Parent => cx.lanes.first(group),
            Part::Alone | Part::State => return None,
        };
        if let (_, _, Some(row)) = lane {
            return Some(row);
        }
        let parent = self.parent_row(cx, uuid, sequence);
        let args = self.source_args(cx, uuid, sequence, uuid == 0);
        let (type_, dimensions, own_name) = self.lane_identity(cx, uuid, name)?;
        let row = cx.lanes.track(&mut cx.store, lane, |_| {
            let spec = TrackSpec::slices(type_, &[]);
            (
                spec.named(own_name).under(parent).with_source(args),
                dimensions,
            )
        });
        Some(row)
    }

    /// Returns the common identity of the lanes of a group, and the name of a new lane.
    fn lane_identity(
        &self,
        cx: &Context,
        uuid: u64,
        event_name: StringId,
    ) -> Option<(&'static str, Vec<Dimension>, StringId)> {
        let track = self.by_uuid.get(&(cx.store.machine, uuid))?;
        let of = &track.descriptor;
        let name = of.name.or(event_name);
        let key = match of.merging {
            Merging::ByKey => of.merge_key,
            _ => name,
        };
        let owner = track.resolved.map_or(Owner::Nobody, |known| known.owner);
        let (type_, mut dimensions) = match owner {
            Owner::Thread(utid) => ("thread_merged_track_event", vec![Dimension::Utid(utid)]),
            Owner::Process(upid) => ("process_merged_track_event", vec![Dimension::Upid(upid)]),
            Owner::Nobody => ("global_merged_track_event", Vec::new()),
        };
        let name = shown_name(cx, owner, name);
        dimensions.push(Dimension::Int("parent_track_uuid", of.parent as i64));
        dimensions.push(Dimension::Int("merge_key_type", of.merging as i64));
        dimensions.push(Dimension::Text("merge_key_value", key));
        Some((type_, dimensions, name))
    }

    /// Returns the row of the parent, unless it is the track of a thread or process itself.
    fn parent_row(&mut self, cx: &mut Context, uuid: u64, sequence: Option<u32>) -> Option<u32> {
        let parent = self
            .by_uuid
            .get(&(cx.store.machine, uuid))?
            .descriptor
            .parent;
        if parent == 0 {
            return None;
        }
        let resolved = self.resolve(cx, parent)?;
        let row = self.row(cx, parent, StringId::NULL, sequence, Part::Parent);
        let is_root = resolved.is_root && resolved.owner != Owner::Nobody;
        row.filter(|_| !is_root)
    }

    #[cold]
    fn target(
        &mut self,
        cx: &mut Context,
        uuid: u64,
        name: StringId,
        sequence: Option<u32>,
    ) -> Option<Target> {
        let resolved = self.resolve(cx, uuid)?;
        let key = (cx.store.machine, uuid);
        let of = self.by_uuid.get(&key)?.descriptor.clone();
        let parent = self.parent_row(cx, uuid, sequence);
        let is_plain_root = resolved.is_root && !resolved.is_counter;
        let target = match resolved.owner {
            Owner::Thread(utid) if is_plain_root && !of.is_separate => {
                Target::Track(cx.tracks.of_thread(&mut cx.store, utid))
            }
            _ if resolved.is_root
                || resolved.is_counter
                || resolved.is_state
                || of.merging == Merging::Never =>
            {
                let is_root = resolved.is_root || uuid == 0;
                let source = self.source_args(cx, uuid, sequence, is_root);
                let own_name = if resolved.is_root || resolved.is_counter {
                    of.name
                } else {
                    of.name.or(name)
                };
                let own_name = shown_name(cx, resolved.owner, own_name);
                let unit = of.counter.map_or(StringId::NULL, |counter| counter.unit);
                let kind = match (resolved.is_counter, resolved.is_state) {
                    (true, _) => EventKind::Counter,
                    (_, true) => EventKind::State,
                    _ => EventKind::Slice,
                };
                let mut dimensions = Vec::new();
                let types = match resolved.owner {
                    Owner::Thread(utid) => {
                        dimensions.push(Dimension::Utid(utid));
                        [
                            "thread_track_event",
                            "thread_counter_track_event",
                            "thread_state_track_event",
                        ]
                    }
                    Owner::Process(upid) => {
                        dimensions.push(Dimension::Upid(upid));
                        [
                            "process_track_event",
                            "process_counter_track_event",
                            "process_state_track_event",
                        ]
                    }
                    Owner::Nobody => [
                        "global_track_event",
                        "global_counter_track_event",
                        "global_state_track_event",
                    ],
                };
                dimensions.push(Dimension::Int("track_uuid", uuid as i64));
                let spec = TrackSpec {
                    kind,
                    type_: types[kind as usize],
                    dimensions: &dimensions,
                    name: own_name,
                    parent,
                    unit,
                    source,
                };
                Target::Track(cx.tracks.intern(&mut cx.store, spec))
            }
            _ => {
                let (type_, dimensions, _) = self.lane_identity(cx, uuid, name)?;
                Target::Lanes(cx.lanes.group(&cx.store, type_, &dimensions))
            }
        };
        self.by_uuid.get_mut(&key)?.target = Some(target);
        Some(target)
    }

    fn source_args(
        &self,
        cx: &mut Context,
        uuid: u64,
        sequence: Option<u32>,
        is_root: bool,
    ) -> ArgSet {
        let mut args = ArgSet::default();
        let Some(track) = self.by_uuid.get(&(cx.store.machine, uuid)) else {
            return args;
        };
        let of = &track.descriptor;
        let store = &mut cx.store;
        args.text(store, "source", "descriptor");
        args.int(store, "trace_id", uuid as i64);
        args.put(store, "is_root_in_scope", ArgValue::Bool(is_root));
        let mut text = |key, text: StringId| {
            if !text.is_null() {
                args.put(store, key, ArgValue::Text(text));
            }
        };
        if let Some(counter) = &of.counter {
            text("category", counter.category);
            text("builtin_counter_type", counter.builtin);
            text("y_axis_share_key", counter.y_axis);
        }
        if sequence.is_some_and(|id| self.with_first_packet.contains(&id)) {
            args.put(store, "has_first_packet_on_sequence", ArgValue::Bool(true));
        }
        if let Some(ordering) = of.ordering {
            args.text(store, "child_ordering", ordering);
        }
        if let Some(rank) = of.rank {
            args.int(store, "sibling_order_rank", rank.into());
        }
        if !of.description.is_null() {
            args.put(store, "description", ArgValue::Text(of.description));
        }
        args
    }
}

/// Returns the name of a track with this owner.
fn shown_name(cx: &Context, owner: Owner, name: StringId) -> StringId {
    match owner {
        Owner::Process(_) => cx.translations.process_track(name),
        _ => name,
    }
}

fn fault(cx: &mut Context, stat: Stat, uuid: u64) {
    let mut args = ArgSet::default();
    args.put(&mut cx.store, "track_uuid", ArgValue::Uint(uuid));
    cx.store.log(stat, None, args);
}
