//! Track descriptors, and the check that the tracks form a tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ferretto_proto::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, track_descriptor as field,
};
use ferretto_wire::{Field, Fields};

use super::problem::{Problem, Problems};
use super::state::text;
use crate::limits::{Budget, entry_bytes};

/// The maximum number of tracks, so that memory is bounded for any input. Others are left out.
const MAX_TRACKS: usize = 1 << 20;
/// The maximum length of the path from a track to the root, including both.
const MAX_PATH: usize = 99;

/// A described track.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// The uuid of the parent track.
    pub parent: Option<u64>,
    /// Its name, or the name of its process or thread.
    pub name: Option<String>,
    /// The process id, for the track of a process.
    pub process: Option<i32>,
    /// The process id and thread id, for the track of a thread.
    pub thread: Option<(i32, i64)>,
    /// The description of its values, for a counter track.
    pub counter: Option<Counter>,
    /// True if its events are states.
    pub is_state: bool,
    /// The order of its children: 1 by name, 2 by time, 3 by rank.
    pub child_ordering: u64,
    /// Its rank among its siblings.
    pub rank: i32,
    /// The merging with siblings: 1 by name, 2 never, 3 by key.
    pub merging: u64,
    /// The key for merging.
    pub merge_key: Option<String>,
}

/// The meaning of a counter's values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counter {
    /// True if the values are differences.
    pub is_incremental: bool,
    /// The factor for the values.
    pub multiplier: i64,
    /// The unit: 1 for nanoseconds, 2 for a count, 3 for bytes.
    pub unit: u64,
    /// The name of the unit.
    pub unit_name: Option<String>,
}

/// The tracks by uuid.
#[derive(Debug)]
pub struct Tracks {
    all: BTreeMap<u64, Track>,
    budget: Budget,
}

/// The memory of a track's table entry without its name, including the entry for finding its root.
const TRACK_BYTES: usize = entry_bytes::<(u64, Track)>() + entry_bytes::<(u64, u64)>();

impl Tracks {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            all: BTreeMap::new(),
            budget: budget.clone(),
        }
    }

    /// Returns the track with this uuid.
    pub fn get(&self, uuid: u64) -> Option<&Track> {
        self.all.get(&uuid)
    }

    /// Returns all tracks with their uuids.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Track)> + '_ {
        self.all.iter().map(|(uuid, track)| (*uuid, track))
    }

    /// Returns the names on the path from the root to a track. Tracks without a name are
    /// represented by their kind.
    pub fn path(&self, uuid: u64) -> String {
        let mut names = Vec::new();
        let mut next = Some(uuid);
        while let Some(uuid) = next.filter(|_| names.len() <= MAX_PATH) {
            let Some(track) = self.get(uuid) else {
                if uuid != 0 {
                    names.push("?".to_owned());
                }
                break;
            };
            names.push(match (&track.name, track.thread, track.process) {
                (Some(name), ..) => name.clone(),
                (None, Some(_), _) => "thread".to_owned(),
                (None, None, Some(_)) => "process".to_owned(),
                (None, None, None) => "track".to_owned(),
            });
            next = track.parent;
        }
        names.reverse();
        names.join("/")
    }

    /// Returns the counter of a track.
    pub(super) fn counter(&self, uuid: u64) -> Option<&Counter> {
        self.get(uuid)?.counter.as_ref()
    }

    /// Reads a `TrackDescriptor`.
    pub(super) fn describe(&mut self, bytes: &[u8], problems: &mut Problems) {
        let Some(uuid) = Fields::find(field::UUID, bytes).and_then(|uuid| uuid.as_u64()) else {
            return problems.add(Problem::TrackWithoutUuid);
        };
        let track = match Track::read(bytes) {
            Ok(track) => track,
            Err(problem) => return problems.add(problem),
        };
        if uuid == 0 && track.parent.is_some() {
            return problems.add(Problem::DefaultTrackWithParent);
        }
        let is_full = self.all.len() >= MAX_TRACKS;
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let bytes = TRACK_BYTES + text(&track.name) + text(&track.merge_key);
        match self.all.get_mut(&uuid) {
            Some(known) if known.conflicts(&track) => problems.add(Problem::ConflictingTrack),
            Some(known) => known.renew(track),
            None if is_full || !self.budget.take(bytes) => problems.add(Problem::NoMemory),
            None => {
                self.all.insert(uuid, track);
            }
        }
    }

    /// Counts the tracks without a path to the root.
    pub(super) fn check(&self, problems: &mut Problems) {
        // The number of ancestors, or the reason why there is no root.
        let mut known: HashMap<u64, Result<usize, Problem>> = HashMap::new();
        for &uuid in self.all.keys() {
            let mut way = Vec::new();
            let mut on_way = BTreeSet::new();
            let mut next = uuid;
            let mut result = loop {
                if let Some(result) = known.get(&next) {
                    break *result;
                }
                if !on_way.insert(next) {
                    break Err(Problem::TrackLoop);
                }
                let Some(track) = self.all.get(&next) else {
                    break Err(Problem::ParentNotDescribed);
                };
                way.push(next);
                match track.parent {
                    Some(parent) => next = parent,
                    None => break Ok(0),
                }
            };
            for uuid in way.into_iter().rev() {
                result = match result {
                    Ok(length) if length >= MAX_PATH => Err(Problem::TrackTooDeep),
                    Ok(length) => Ok(length + 1),
                    Err(problem) => Err(problem),
                };
                if let Err(problem) = result {
                    problems.add(problem);
                }
                known.insert(uuid, result);
            }
        }
    }
}

impl Track {
    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut track = Self::default();
        let mut name_of = None;
        for part in Fields::new(bytes).map_while(Result::ok) {
            let inner = part.as_bytes().unwrap_or_default();
            let number = || part.as_u64().unwrap_or(0);
            match part.number {
                field::PARENT_UUID => track.parent = part.as_u64().filter(|uuid| *uuid != 0),
                field::NAME | field::STATIC_NAME | field::ATRACE_NAME => {
                    track.name = Some(text(inner));
                }
                field::PROCESS => {
                    name_of = Fields::find(process_descriptor::PROCESS_NAME, inner);
                    let pid = Fields::find(process_descriptor::PID, inner);
                    let pid = pid.and_then(|pid| pid.as_u64());
                    track.process = Some(pid.ok_or(Problem::ProcessWithoutNumber)? as i32);
                }
                field::THREAD => {
                    name_of = Fields::find(thread_descriptor::THREAD_NAME, inner);
                    let number = |field| Fields::find(field, inner).and_then(|n| n.as_i64());
                    let pid = number(thread_descriptor::PID);
                    let tid = number(thread_descriptor::TID);
                    let (pid, tid) = pid.zip(tid).ok_or(Problem::ThreadWithoutNumbers)?;
                    track.thread = Some((pid as i32, tid));
                }
                field::COUNTER => track.counter = Some(Counter::read(inner)),
                field::STATE => track.is_state = true,
                field::CHILD_ORDERING => {
                    track.child_ordering = number();
                    if track.child_ordering > 3 {
                        return Err(Problem::BadChildOrdering);
                    }
                }
                field::SIBLING_ORDER_RANK => track.rank = number() as i32,
                field::SIBLING_MERGE_BEHAVIOR => track.merging = number(),
                field::SIBLING_MERGE_KEY => track.merge_key = Some(text(inner)),
                field::SIBLING_MERGE_KEY_INT => {
                    track.merge_key = Some(format!("sibling_merge_key_int:{}", number()));
                }
                _ => {}
            }
        }
        let name_of = || name_of?.as_bytes().map(text);
        track.name = track.name.or_else(name_of);
        Ok(track)
    }

    /// Returns true if `other` contradicts this description of the track.
    fn conflicts(&self, other: &Self) -> bool {
        // Unspecified means merging by name.
        let merging = |track: &Self| track.merging.max(1);
        self.parent != other.parent
            || self.process != other.process
            || self.thread != other.thread
            || self.is_state != other.is_state
            || self.merge_key != other.merge_key
            || merging(self) != merging(other)
            || !Counter::agree(self.counter.as_ref(), other.counter.as_ref())
    }

    fn renew(&mut self, other: Self) {
        let name = other.name.clone().or(self.name.take());
        *self = Self { name, ..other };
    }
}

impl Counter {
    fn read(bytes: &[u8]) -> Self {
        let find = |field| Fields::find(field, bytes);
        let number = |field| find(field).and_then(|field: Field<'_>| field.as_u64());
        Self {
            is_incremental: number(counter_descriptor::IS_INCREMENTAL).unwrap_or(0) != 0,
            multiplier: number(counter_descriptor::UNIT_MULTIPLIER).unwrap_or(1) as i64,
            unit: number(counter_descriptor::UNIT).unwrap_or(0),
            unit_name: find(counter_descriptor::UNIT_NAME)
                .and_then(|name| name.as_bytes())
                .map(text),
        }
    }

    fn agree(one: Option<&Self>, other: Option<&Self>) -> bool {
        let fixed = |counter: &Self| (counter.is_incremental, counter.multiplier);
        one.map(fixed) == other.map(fixed)
    }
}
