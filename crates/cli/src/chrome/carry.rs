//! State carried from one part of a trace to the next: open slices, the values of counters, and the
//! running threads.
//!
//! Each part repeats the events that are open at its start. These are joined with the slices of
//! earlier parts.

use std::borrow::Cow;
use std::collections::HashMap;

use ferretto_format::budget::entry_bytes;

use super::args::Arg;
use super::tracks::Shown;

/// A slice, with texts of its trace.
#[derive(Debug)]
pub(super) struct Slice<'t> {
    pub(super) at: Shown,
    pub(super) ts: i64,
    pub(super) name: Cow<'t, str>,
    pub(super) category: Cow<'t, str>,
    pub(super) args: Vec<Arg<'t>>,
    /// True for a request to a disk.
    pub(super) is_request: bool,
}

/// A slice that outlives its part of the trace.
pub(super) type KeptSlice = Slice<'static>;

impl Slice<'_> {
    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let args: usize = self.args.iter().map(Arg::memory).sum();
        size_of::<Self>() + self.name.len() + self.category.len() + args
    }

    /// Returns the slice with texts of its own.
    pub(super) fn into_kept(self) -> KeptSlice {
        Slice {
            name: self.name.into_owned().into(),
            category: self.category.into_owned().into(),
            args: self.args.into_iter().map(Arg::into_owned).collect(),
            ..self
        }
    }
}

/// The open slices of earlier parts by track, the outermost first.
#[derive(Debug, Default)]
pub(super) struct Known {
    open: HashMap<Shown, Vec<KeptSlice>>,
    /// The number of these that this part has continued, by track.
    continued: HashMap<Shown, usize>,
}

impl Known {
    /// Returns the start of the next open slice of earlier parts on this track, if this slice
    /// continues it.
    pub(super) fn continue_slice(&mut self, at: Shown, depth: u32, name: &str) -> Option<i64> {
        let open = self.open.get(&at)?;
        let continued = self.continued.entry(at).or_default();
        let slice = open
            .get(*continued)
            .filter(|_| *continued == depth as usize)?;
        if slice.name != name {
            // No other slice continues; later ones start in this part.
            *continued = usize::MAX;
            return None;
        }
        *continued += 1;
        Some(slice.ts)
    }
}

/// The state carried from part to part.
#[derive(Debug, Default)]
pub(super) struct Carry {
    open: HashMap<Shown, Vec<KeptSlice>>,
    /// The index of each counter in `values`.
    counters: HashMap<(Shown, String), usize>,
    /// The last value of each counter, and true if it is of this part.
    values: Vec<Option<(u64, bool)>>,
    /// The running thread of each CPU, and its start: in earlier parts, and in this one.
    running: HashMap<i64, (i64, i64)>,
    next_running: HashMap<i64, (i64, i64)>,
    /// The last time of the earlier parts, and of this one.
    before: Option<i64>,
    last: i64,
}

impl Carry {
    /// Returns the open slices of earlier parts.
    pub(super) fn begin_part(&mut self) -> Known {
        Known {
            open: std::mem::take(&mut self.open),
            continued: HashMap::new(),
        }
    }

    /// Returns true if a time is not after the earlier parts.
    pub(super) fn is_earlier(&self, time: i64) -> bool {
        self.before.is_some_and(|before| time <= before)
    }

    /// Records a time of this part.
    pub(super) fn add_time(&mut self, time: i64) {
        self.last = self.last.max(time);
    }

    /// Keeps the slices that this part did not continue.
    pub(super) fn keep(&mut self, known: Known) {
        for (at, slices) in known.open {
            if !known.continued.contains_key(&at) {
                self.open.insert(at, slices);
            }
        }
    }

    /// Keeps an open slice.
    pub(super) fn keep_open(&mut self, slice: KeptSlice) {
        self.open.entry(slice.at).or_default().push(slice);
    }

    /// Returns the slices that never ended.
    pub(super) fn take_open(&mut self) -> impl Iterator<Item = KeptSlice> + use<> {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(at, _)| *at);
        open.into_iter().flat_map(|(_, slices)| slices)
    }

    /// Returns the index of a counter, for [`is_repeated`](Self::is_repeated).
    pub(super) fn counter(&mut self, of: Shown, name: &str) -> usize {
        let next = self.values.len();
        let index = *self.counters.entry((of, name.to_owned())).or_insert(next);
        if index == next {
            self.values.push(None);
        }
        index
    }

    /// Returns true if a value of a counter repeats the last one of an earlier part.
    pub(super) fn is_repeated(&mut self, counter: usize, ts: i64, value: f64) -> bool {
        self.add_time(ts);
        let bits = value.to_bits();
        let last = self.values.get_mut(counter);
        let last = last.and_then(|last| last.replace((bits, true)));
        last.is_some_and(|(known, in_this_part)| {
            let is_earlier = self.before.is_some_and(|last| ts <= last);
            !in_this_part && known == bits && is_earlier
        })
    }

    /// Keeps a running thread.
    pub(super) fn keep_running(&mut self, cpu: i64, tid: i64, ts: i64) {
        let since = self.ran_since(cpu, tid, ts);
        self.next_running.insert(cpu, (tid, since));
    }

    /// Returns the start of a running thread, which may be in an earlier part.
    pub(super) fn ran_since(&mut self, cpu: i64, tid: i64, ts: i64) -> i64 {
        match self.running.remove(&cpu) {
            Some((known, since)) if known == tid && since <= ts => since,
            _ => ts,
        }
    }

    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let slices = self.open.values().flatten();
        let slices: usize = slices.map(Slice::memory).sum();
        let names: usize = self.counters.keys().map(|(_, name)| name.len()).sum();
        slices
            + names
            + self.open.len() * entry_bytes::<(Shown, Vec<KeptSlice>)>()
            + self.counters.len() * entry_bytes::<((Shown, String), usize)>()
            + self.values.len() * size_of::<Option<(u64, bool)>>()
            + self.running.len() * entry_bytes::<(i64, (i64, i64))>()
    }

    /// Ends a part.
    pub(super) fn end_part(&mut self) {
        self.before = Some(self.last);
        let running = std::mem::take(&mut self.next_running);
        self.running.extend(running);
        for (_, in_this_part) in self.values.iter_mut().flatten() {
            *in_this_part = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(at: Shown, ts: i64, name: &'static str) -> KeptSlice {
        Slice {
            at,
            ts,
            name: name.into(),
            category: "".into(),
            args: Vec::new(),
            is_request: false,
        }
    }

    #[test]
    fn slices_continue_by_track_depth_and_name() {
        let mut carry = Carry::default();
        for (at, ts, name) in [
            ((1, 1), 5, "outer"),
            ((1, 1), 7, "inner"),
            ((1, 2), 9, "other"),
        ] {
            carry.keep_open(slice(at, ts, name));
        }
        let mut known = carry.begin_part();
        assert_eq!(known.continue_slice((1, 1), 0, "outer"), Some(5));
        assert_eq!(known.continue_slice((1, 1), 1, "inner"), Some(7));
        assert_eq!(
            known.continue_slice((1, 1), 1, "inner"),
            None,
            "a new slice"
        );
        assert_eq!(known.continue_slice((1, 3), 0, "outer"), None);
        carry.keep(known);
        let open: Vec<_> = carry.take_open().map(|slice| slice.name).collect();
        assert_eq!(open, ["other"]);
    }

    #[test]
    fn repeated_values_and_running_threads_are_joined() {
        let mut carry = Carry::default();
        let load = carry.counter((1, 0), "load");
        assert!(!carry.is_repeated(load, 10, 1.0));
        carry.keep_running(0, 42, 8);
        carry.end_part();
        assert_eq!(carry.counter((1, 0), "load"), load);
        assert!(carry.is_repeated(load, 10, 1.0));
        assert!(!carry.is_repeated(load, 11, 1.0));
        assert_eq!(carry.ran_since(0, 42, 9), 8);
        assert_eq!(carry.ran_since(0, 42, 12), 12);
        carry.keep_running(0, 42, 20);
        carry.end_part();
        assert_eq!(carry.ran_since(0, 43, 21), 21);
    }
}
