//! Tracks by identity: machine, type and dimensions.

use rustc_hash::FxHashMap;

use crate::schema::{ArgValue, TrackRow};
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::machine::CPUS_PER_MACHINE;

/// The kind of events that a track has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    Slice,
    Counter,
    State,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Counter => "counter",
            Self::State => "state",
        }
    }
}

/// A value that distinguishes a track from others of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dimension {
    /// A thread: `thread.id`.
    Utid(u32),
    /// A process: `process.id`.
    Upid(u32),
    /// A CPU, by the kernel's number.
    Cpu(u32),
    /// Another integer.
    Int(&'static str, i64),
    /// Another text.
    Text(&'static str, StringId),
}

/// A description of a track: its identity, and the columns of a new track.
#[derive(Debug)]
pub(crate) struct TrackSpec<'a> {
    pub(crate) kind: EventKind,
    /// The type.
    pub(crate) type_: &'static str,
    pub(crate) dimensions: &'a [Dimension],
    pub(crate) name: StringId,
    pub(crate) parent: Option<u32>,
    /// The unit of a counter.
    pub(crate) unit: StringId,
    /// Arguments from its source.
    pub(crate) source: ArgSet,
}

impl<'a> TrackSpec<'a> {
    /// Returns the description of a track with slices.
    pub(crate) fn slices(type_: &'static str, dimensions: &'a [Dimension]) -> Self {
        Self {
            kind: EventKind::Slice,
            type_,
            dimensions,
            name: StringId::NULL,
            parent: None,
            unit: StringId::NULL,
            source: ArgSet::default(),
        }
    }

    /// Returns the description of a counter.
    pub(crate) fn counter(type_: &'static str, dimensions: &'a [Dimension]) -> Self {
        Self {
            kind: EventKind::Counter,
            ..Self::slices(type_, dimensions)
        }
    }

    /// Sets the name.
    pub(crate) fn named(self, name: StringId) -> Self {
        Self { name, ..self }
    }

    /// Sets the unit.
    pub(crate) fn in_unit(self, store: &mut Store, unit: &str) -> Self {
        Self {
            unit: store.strings.intern(unit),
            ..self
        }
    }

    /// Sets the parent.
    pub(crate) fn under(self, parent: Option<u32>) -> Self {
        Self { parent, ..self }
    }

    /// Sets the arguments from its source.
    pub(crate) fn with_source(self, source: ArgSet) -> Self {
        Self { source, ..self }
    }
}

/// The maximum number of dimensions of a track.
const MAX_DIMENSIONS: usize = 6;

/// The identity of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TrackKey {
    machine: u32,
    type_: &'static str,
    kind: EventKind,
    dimensions: [Option<Dimension>; MAX_DIMENSIONS],
}

impl TrackKey {
    /// Returns the identity of a track of a machine.
    pub(crate) fn new(
        machine: u32,
        type_: &'static str,
        kind: EventKind,
        dimensions: &[Dimension],
    ) -> Self {
        let mut all = [None; MAX_DIMENSIONS];
        for (slot, dimension) in all.iter_mut().zip(dimensions) {
            *slot = Some(*dimension);
        }
        Self {
            machine,
            type_,
            kind,
            dimensions: all,
        }
    }
}

/// All tracks by their identity.
#[derive(Debug, Default)]
pub(crate) struct TrackTracker {
    tracks: FxHashMap<TrackKey, u32>,
    /// The tracks of threads, by thread.
    threads: Vec<u32>,
}

impl TrackTracker {
    /// Returns the track with this identity, and adds it if it is new.
    pub(crate) fn intern(&mut self, store: &mut Store, spec: TrackSpec<'_>) -> u32 {
        let key = TrackKey::new(store.machine, spec.type_, spec.kind, spec.dimensions);
        if let Some(track) = self.tracks.get(&key) {
            return *track;
        }
        let track = Self::create(store, spec);
        self.tracks.insert(key, track);
        track
    }

    /// Returns the track of a thread, and adds it if it is new.
    #[inline]
    pub(crate) fn of_thread(&mut self, store: &mut Store, utid: u32) -> u32 {
        match self.threads.get(utid as usize) {
            Some(track) if *track != u32::MAX => *track,
            _ => self.add_thread(store, utid),
        }
    }

    /// Returns the track of a thread if it has one.
    pub(crate) fn known_of_thread(&self, utid: u32) -> Option<u32> {
        let track = self.threads.get(utid as usize).copied();
        track.filter(|track| *track != u32::MAX)
    }

    #[cold]
    fn add_thread(&mut self, store: &mut Store, utid: u32) -> u32 {
        let dimensions = [Dimension::Utid(utid)];
        let track = self.intern(store, TrackSpec::slices("thread_execution", &dimensions));
        let index = utid as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, u32::MAX);
        }
        self.threads[index] = track;
        track
    }

    /// Adds a track that is not shared with another source.
    pub(crate) fn create(store: &mut Store, mut spec: TrackSpec<'_>) -> u32 {
        let mut args = ArgSet::default();
        let (mut utid, mut upid, mut cpu) = (None, None, None);
        for dimension in spec.dimensions {
            let (key, value) = match *dimension {
                Dimension::Utid(value) => {
                    utid = Some(value);
                    ("utid", ArgValue::Int(value.into()))
                }
                Dimension::Upid(value) => {
                    upid = Some(value);
                    ("upid", ArgValue::Int(value.into()))
                }
                Dimension::Cpu(value) => {
                    cpu = Some(value);
                    if value < CPUS_PER_MACHINE {
                        // The CPU occurs in the trace.
                        let ucpu = store.machine * CPUS_PER_MACHINE + value;
                        store.tables.cpu.cpu.set(ucpu, cpu);
                    }
                    ("cpu", ArgValue::Int(value.into()))
                }
                Dimension::Int(key, value) => (key, ArgValue::Int(value)),
                Dimension::Text(key, value) => (key, ArgValue::Text(value)),
            };
            args.put(store, key, value);
        }
        let row = TrackRow {
            name: spec.name,
            type_: store.strings.intern(spec.type_),
            dimension_arg_set_id: args.finish(store),
            parent_id: spec.parent,
            source_arg_set_id: spec.source.finish(store),
            machine_id: store.machine,
            track_group_id: None,
            event_type: store.strings.intern(spec.kind.as_str()),
            counter_unit: spec.unit,
            utid,
            upid,
            cpu,
        };
        store.tables.track.push(row)
    }
}
