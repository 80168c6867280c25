//! Nested slices.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::schema::{ArgValue, SliceRow};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::waiting_args::Owner;

/// The maximum depth of slices.
const MAX_DEPTH: usize = 512;

/// The duration of an open slice.
pub(crate) const OPEN: i64 = -1;

/// The begin of a slice, or a complete slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SliceStart {
    pub(crate) ts: i64,
    pub(crate) track: u32,
    pub(crate) category: StringId,
    pub(crate) name: StringId,
}

/// A slice that would begin inside of another one and end after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overlap {
    end: i64,
    name: StringId,
    ts: i64,
    dur: i64,
}

/// The slices of all tracks.
#[derive(Debug, Default)]
pub(crate) struct SliceTracker {
    /// The open slices, by track.
    stacks: Vec<Stack>,
    /// Tracks whose next slice is awaited.
    watched: FxHashSet<u32>,
    /// Slices that began on such tracks.
    begun: Vec<(u32, u32)>,
    /// Other names of slices, by their names in the trace.
    names: FxHashMap<StringId, StringId>,
    /// Argument sets to reuse their memory.
    spare: Vec<ArgSet>,
}

/// The maximum number of renamed slices.
const MAX_NAMES: usize = 1 << 20;

/// The maximum number of argument sets kept for reuse.
const SPARE: usize = 64;

/// The slices of one track that may still get children.
#[derive(Debug, Default)]
struct Stack {
    slices: Vec<Level>,
    unnestable: Option<Box<Unnestable>>,
}

/// The state of a track with at most one slice at a time.
#[derive(Debug, Default)]
struct Unnestable {
    begins: i64,
    last_begin: i64,
}

#[derive(Debug)]
struct Level {
    id: u32,
    ts: i64,
    dur: i64,
    category: StringId,
    name: StringId,
    /// The arguments of an open slice, which may increase.
    args: ArgSet,
}

impl Level {
    fn is_open(&self) -> bool {
        self.dur == OPEN
    }
}

impl SliceTracker {
    /// Renames later slices with a name.
    pub(crate) fn rename(&mut self, from: StringId, to: StringId) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(from, to);
        }
    }

    #[inline]
    fn shown_name(&self, name: StringId) -> StringId {
        if self.names.is_empty() {
            name
        } else {
            self.names.get(&name).copied().unwrap_or(name)
        }
    }

    /// Begins a slice. Returns its id, unless it was dropped.
    pub(crate) fn begin(
        &mut self,
        store: &mut Store,
        start: SliceStart,
        args: &mut ArgSet,
    ) -> Option<u32> {
        self.start(store, start, OPEN, args).ok().flatten()
    }

    /// Adds a slice with a known end. Returns its id, unless it was dropped and logged.
    pub(crate) fn complete(
        &mut self,
        store: &mut Store,
        start: SliceStart,
        dur: i64,
        args: &mut ArgSet,
    ) -> Option<u32> {
        match self.try_complete(store, start, dur, args) {
            Ok(id) => id,
            Err(overlap) => {
                let stat = Stat::slice_drop_overlapping_complete_event;
                overlap.log(store, stat, start.ts);
                None
            }
        }
    }

    /// Adds a slice with a known end. Returns its id, unless it was dropped.
    ///
    /// # Errors
    ///
    /// Fails if it would begin inside of another slice and end after it. The caller logs that.
    pub(crate) fn try_complete(
        &mut self,
        store: &mut Store,
        start: SliceStart,
        dur: i64,
        args: &mut ArgSet,
    ) -> Result<Option<u32>, Overlap> {
        if dur < 0 {
            let ts = Some(start.ts);
            store.log(Stat::slice_negative_duration, ts, ArgSet::default());
            return Ok(None);
        }
        self.start(store, start, dur, args)
    }

    /// Begins a slice on a track with at most one slice at a time. If one is open, it is counted in
    /// the arguments of that one instead.
    pub(crate) fn begin_unnestable(
        &mut self,
        store: &mut Store,
        start: SliceStart,
        args: &mut ArgSet,
    ) -> Option<u32> {
        let stack = stack_of(&mut self.stacks, start.track);
        stack.unnestable.get_or_insert_default();
        self.start(store, start, OPEN, args).ok().flatten()
    }

    /// Ends the innermost open slice with this category and name; NULL matches any. Returns its id.
    pub(crate) fn end(
        &mut self,
        store: &mut Store,
        ts: i64,
        track: u32,
        (category, name): (StringId, StringId),
        args: &mut ArgSet,
    ) -> Option<u32> {
        let name = self.shown_name(name);
        let stack = self.stacks.get_mut(track as usize)?;
        stack.close(store, ts, OPEN).ok()?;
        let index = stack.find_open(category, name)?;
        let level = &mut stack.slices[index];
        level.dur = ts.wrapping_sub(level.ts);
        store.tables.slice.dur.set(level.id, level.dur);
        level.args.append(args);
        args.clear();
        if let Some(unnestable) = &stack.unnestable {
            let (begins, last) = (unnestable.begins, unnestable.last_begin);
            let args = &mut level.args;
            args.int(store, "legacy_unnestable_begin_count", begins);
            args.int(store, "legacy_unnestable_last_begin_ts", last);
        }
        let id = level.id;
        level.keep_args(store);
        if index + 1 == stack.slices.len()
            && let Some(mut level) = stack.slices.pop()
            && self.spare.len() < SPARE
        {
            level.args.clear();
            self.spare.push(level.args);
        }
        Some(id)
    }

    /// Returns the arguments of the innermost open slice with this category and name; NULL matches
    /// any.
    pub(crate) fn open_args(
        &mut self,
        track: u32,
        category: StringId,
        name: StringId,
    ) -> Option<(u32, &mut ArgSet)> {
        let name = self.shown_name(name);
        let stack = self.stacks.get_mut(track as usize)?;
        let index = stack.find_open(category, name)?;
        let level = &mut stack.slices[index];
        Some((level.id, &mut level.args))
    }

    /// Returns the innermost slice of a track.
    pub(crate) fn top(&self, track: u32) -> Option<u32> {
        let stack = self.stacks.get(track as usize)?;
        stack.slices.last().map(|level| level.id)
    }

    /// Returns the category and the name of the innermost open slice of a track.
    pub(crate) fn open(&self, track: u32) -> Option<(StringId, StringId)> {
        let stack = self.stacks.get(track as usize)?;
        let mut open = stack.slices.iter().rev().filter(|level| level.is_open());
        open.next().map(|level| (level.category, level.name))
    }

    /// Awaits the next slice that begins on a track.
    pub(crate) fn watch(&mut self, track: u32) {
        self.watched.insert(track);
    }

    /// Returns true if slices began on watched tracks.
    #[inline]
    pub(crate) fn have_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Returns the slices that began on watched tracks, as pairs of track and slice.
    pub(crate) fn take_begun(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.begun)
    }

    /// Writes the arguments of open slices into the table.
    pub(crate) fn finish(&mut self, store: &mut Store) {
        for stack in &mut self.stacks {
            for level in &mut stack.slices {
                level.keep_args(store);
            }
        }
        self.stacks = Vec::new();
    }

    fn start(
        &mut self,
        store: &mut Store,
        start: SliceStart,
        dur: i64,
        args: &mut ArgSet,
    ) -> Result<Option<u32>, Overlap> {
        let name = self.shown_name(start.name);
        let start = SliceStart { name, ..start };
        let stack = stack_of(&mut self.stacks, start.track);
        if let Some(unnestable) = &mut stack.unnestable {
            unnestable.begins += 1;
            unnestable.last_begin = start.ts;
            if !stack.slices.is_empty() {
                args.clear();
                return Ok(None);
            }
        }
        stack.close(store, start.ts, dur)?;
        let depth = stack.slices.len();
        if depth >= MAX_DEPTH {
            let parent = stack.slices.last().map_or(StringId::NULL, |top| top.name);
            let mut log = ArgSet::default();
            log.put(store, "parent_slice_name", ArgValue::Text(parent));
            log.put(store, "current_slice_name", ArgValue::Text(start.name));
            store.log(Stat::slice_max_depth_exceeded, Some(start.ts), log);
            return Ok(None);
        }
        let parent_id = stack.slices.last().map(|top| top.id);
        let id = store.tables.slice.push(SliceRow {
            ts: start.ts,
            dur,
            track_id: start.track,
            category: start.category,
            name: start.name,
            depth: depth as u32,
            parent_id,
            arg_set_id: None,
            thread_ts: None,
            thread_dur: None,
            thread_instruction_count: None,
            thread_instruction_delta: None,
        });
        // No arguments are added later to a slice with a known end.
        if dur != OPEN {
            args.finish_later(store, Owner::Slice(id));
        }
        stack.slices.push(Level {
            id,
            ts: start.ts,
            dur,
            category: start.category,
            name: start.name,
            args: std::mem::replace(args, self.spare.pop().unwrap_or_default()),
        });
        if !self.watched.is_empty() && self.watched.remove(&start.track) {
            self.begun.push((start.track, id));
        }
        Ok(Some(id))
    }
}

fn stack_of(stacks: &mut Vec<Stack>, track: u32) -> &mut Stack {
    let index = track as usize;
    if stacks.len() <= index {
        stacks.resize_with(index + 1, Stack::default);
    }
    &mut stacks[index]
}

impl Stack {
    /// Removes the slices that end before another one begins.
    fn close(&mut self, store: &mut Store, ts: i64, dur: i64) -> Result<(), Overlap> {
        let mut has_open = false;
        for index in (0..self.slices.len()).rev() {
            let level = &self.slices[index];
            if level.is_open() {
                has_open = true;
                continue;
            }
            let end = level.ts.saturating_add(level.dur);
            if has_open {
                if ts <= end {
                    continue;
                }
                store.stats.add(Stat::misplaced_end_event, 1);
                for mut inner in self.slices.drain(index + 1..).rev() {
                    let dur = end.wrapping_sub(inner.ts);
                    store.tables.slice.dur.set(inner.id, dur);
                    inner.keep_args(store);
                }
                self.slices.pop();
                has_open = false;
                continue;
            }
            let are_instants = level.dur == 0 && dur == 0;
            if end < ts || (end == ts && !are_instants) {
                self.slices.pop();
            } else if dur != OPEN && ts < end && ts.saturating_add(dur) > end {
                return Err(Overlap {
                    end,
                    name: level.name,
                    ts: level.ts,
                    dur: level.dur,
                });
            }
        }
        Ok(())
    }

    fn find_open(&self, category: StringId, name: StringId) -> Option<usize> {
        self.slices.iter().rposition(|level| {
            level.is_open()
                && (category.is_null() || category == level.category)
                && (name.is_null() || level.name.is_null() || name == level.name)
        })
    }
}

impl Level {
    fn keep_args(&mut self, store: &mut Store) {
        self.args.finish_later(store, Owner::Slice(self.id));
    }
}

impl Overlap {
    /// Counts the overlap and logs it, for a slice that begins at this time.
    pub(crate) fn log(&self, store: &mut Store, stat: Stat, start: i64) {
        self.log_with(store, stat, start, ArgSet::default());
    }

    /// Counts the overlap and logs it, with further arguments in front.
    pub(crate) fn log_with(&self, store: &mut Store, stat: Stat, start: i64, mut args: ArgSet) {
        args.int(store, "overlap_start", start);
        args.int(store, "overlap_end", self.end);
        args.put(store, "conflicting_slice_name", ArgValue::Text(self.name));
        args.int(store, "conflicting_slice_ts", self.ts);
        args.int(store, "conflicting_slice_dur", self.dur);
        store.log(stat, Some(start), args);
    }
}
