//! Limits of the CPU time of control groups: `cpu.max`.

use ferretto_tables::schema::ArgValue;
use ferretto_tables::{StringId, Trace};
use rustc_hash::FxHashMap;

/// The type of the tracks of control groups, and the counter of the time in which threads of a
/// group were not let run since its limit was used up.
const TRACK: &str = "cgroup";
const THROTTLED: &str = "cpu.throttled";

/// The times in which control groups had used up their limits.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// The paths of such groups, and the times between two readings of the kernel's counter in
    /// which it grew.
    groups: Vec<(StringId, Vec<(i64, i64)>)>,
    /// By process: the groups that it belongs to.
    of_process: FxHashMap<u32, Vec<usize>>,
}

impl Limits {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut limits = Self {
            groups: groups(trace),
            ..Self::default()
        };
        if limits.groups.is_empty() {
            return limits;
        }
        let (processes, strings) = (&trace.tables().process, trace.strings());
        for process in 0..processes.len() {
            let args = processes.arg_set_id().get(process);
            let Some(path) = args.and_then(|args| text(trace, args, "cgroup.path")) else {
                continue;
            };
            let path = strings.text(path);
            let groups = limits.groups.iter().enumerate();
            let groups = groups.filter(|(_, (group, _))| is_within(path, strings.text(*group)));
            let groups: Vec<usize> = groups.map(|(at, _)| at).collect();
            if !groups.is_empty() {
                limits.of_process.insert(process, groups);
            }
        }
        limits
    }

    /// Returns the group whose limit held back threads of a process in a part of a time.
    pub(crate) fn holding(&self, process: u32, (start, end): (i64, i64)) -> Option<StringId> {
        let groups = self.of_process.get(&process)?;
        let holds = |at: &&usize| {
            let times = &self.groups[**at].1;
            let next = times.partition_point(|(_, until)| *until <= start);
            times.get(next).is_some_and(|(from, _)| *from < end)
        };
        let group = groups.iter().find(holds)?;
        Some(self.groups[*group].0)
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let times = self.groups.iter().map(|(_, times)| times.capacity());
        times.sum::<usize>() * size_of::<(i64, i64)>()
    }
}

/// Returns true if a group is another one or within it.
fn is_within(path: &str, group: &str) -> bool {
    let rest = path.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the groups that used up their limits, with the times.
fn groups(trace: &Trace) -> Vec<(StringId, Vec<(i64, i64)>)> {
    let (tables, strings) = (trace.tables(), trace.strings());
    let tracks = &tables.track;
    let group = |track: u32| {
        let args = tracks.dimension_arg_set_id().get(track)?;
        let is_group = strings.text(tracks.type_().get(track)) == TRACK;
        let counter = text(trace, args, "cgroup_counter").filter(|_| is_group)?;
        (strings.text(counter) == THROTTLED).then(|| text(trace, args, "cgroup"))?
    };
    let mut groups: FxHashMap<u32, (StringId, Vec<(i64, i64)>)> = (0..tracks.len())
        .filter_map(|track| Some((track, (group(track)?, Vec::new()))))
        .collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let counters = &tables.counter;
    let mut last: FxHashMap<u32, (i64, f64)> = FxHashMap::default();
    for row in 0..counters.len() {
        let track = counters.track_id().get(row);
        let Some((_, times)) = groups.get_mut(&track) else {
            continue;
        };
        let (time, value) = (counters.ts().get(row), counters.value().get(row));
        if let Some((before, known)) = last.insert(track, (time, value))
            && value > known
        {
            times.push((before, time));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.retain(|(_, (_, times))| !times.is_empty());
    groups.sort_by_key(|(track, _)| *track);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns the text of an argument.
fn text(trace: &Trace, set: u32, key: &str) -> Option<StringId> {
    let mut args = trace.tables().args.set(set);
    let is_it = |key_id| trace.strings().text(key_id) == key;
    match args.find(|arg| is_it(arg.key))?.value {
        ArgValue::Text(text) => Some(text),
        _ => None,
    }
}
