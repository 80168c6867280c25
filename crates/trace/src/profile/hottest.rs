//! Which functions, processes and threads the samples fall on.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Profile;
use super::counts::{Count, StackCounts, Value};
use super::function::{FunctionId, Origin};

/// A function with its part of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFunction {
    /// Its name, or the place where no name is known.
    pub name: String,
    /// File name of its program or library, `[kernel]`, or empty.
    pub module: String,
    /// Samples in the function itself.
    pub own: Count,
    /// Samples in the function or in what it called.
    pub total: Count,
}

/// A process or thread with its part of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The machine.
    pub machine: u32,
    /// The number of the process or thread.
    pub id: i32,
    /// Its name; empty if the trace has none.
    pub name: String,
    /// Its samples.
    pub count: Count,
}

/// How the kernel switches to another thread. A thread that waits does so in what called these.
const SWITCHING: [&str; 8] = [
    "__traceiter_sched_switch",
    "finish_task_switch",
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
];

/// Functions by their own samples, the hottest first. A function that calls itself counts once for each sample; where no
/// name is known the addresses of one file count together. Time off the CPU is that of what waited, and not of the kernel's
/// scheduler.
pub fn hottest(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<HotFunction> {
    let mut by_stack: HashMap<_, Count> = HashMap::new();
    for (key, count) in counts.iter(profile) {
        by_stack.entry(key.stack).or_default().add(count);
    }
    let mut functions: HashMap<FunctionId, (Count, Count)> = HashMap::new();
    let mut seen: HashSet<FunctionId> = HashSet::new();
    let is_off_cpu = counts.is_off_cpu(profile);
    for (stack, count) in by_stack {
        seen.clear();
        let mut innermost = None;
        for line in profile.functions(stack) {
            if seen.insert(line.function) {
                functions.entry(line.function).or_default().1.add(count);
            }
            if !(is_off_cpu && is_switching(profile, line.function)) {
                innermost = Some(line.function);
            }
        }
        if let Some(function) = innermost {
            functions.entry(function).or_default().0.add(count);
        }
    }
    merge(profile, functions, value)
}

fn is_switching(profile: &Profile, id: FunctionId) -> bool {
    profile.function(id).is_some_and(|function| {
        // Compilers add to the names of what they have split off, as in `finish_task_switch.isra.0`.
        let name = function.name.split('.').next().unwrap_or_default();
        function.origin == Origin::Kernel && SWITCHING.contains(&name)
    })
}

/// One line for each name in each file.
fn merge(
    profile: &Profile,
    functions: HashMap<FunctionId, (Count, Count)>,
    value: Value,
) -> Vec<HotFunction> {
    let mut merged: BTreeMap<(String, String), HotFunction> = BTreeMap::new();
    for (id, (own, total)) in functions {
        let Some(function) = profile.function(id) else {
            continue;
        };
        let name = match function.origin {
            Origin::Truncated => continue,
            Origin::Unknown if !function.module.is_empty() => "[no symbol]".to_owned(),
            _ => function.name.to_string(),
        };
        let key = (name.clone(), function.module.to_string());
        let hot = merged.entry(key).or_insert_with(|| HotFunction {
            name,
            module: function.module.to_string(),
            own: Count::default(),
            total: Count::default(),
        });
        hot.own.add(own);
        hot.total.add(total);
    }
    let mut hottest: Vec<_> = merged.into_values().collect();
    hottest.sort_by_key(|hot| std::cmp::Reverse((hot.own.value(value), hot.total.value(value))));
    hottest
}

/// Processes by their samples, the most first.
pub fn processes(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<Share> {
    let name = |machine, pid| profile.process_name(machine, pid);
    let keys = counts.iter(profile);
    shares(
        keys.map(|(key, count)| (key.machine, key.pid, count)),
        name,
        value,
    )
}

/// Threads by their samples, the most first.
pub fn threads(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<Share> {
    let name = |machine, tid| profile.thread_name(machine, tid);
    let keys = counts.iter(profile);
    shares(
        keys.map(|(key, count)| (key.machine, key.tid, count)),
        name,
        value,
    )
}

fn shares<'a>(
    counts: impl Iterator<Item = (u32, i32, Count)>,
    name: impl Fn(u32, i32) -> Option<&'a str>,
    value: Value,
) -> Vec<Share> {
    let mut added: BTreeMap<(u32, i32), Count> = BTreeMap::new();
    for (machine, id, count) in counts {
        added.entry((machine, id)).or_default().add(count);
    }
    let mut shares: Vec<_> = added
        .into_iter()
        .map(|((machine, id), count)| Share {
            machine,
            id,
            name: name(machine, id).unwrap_or_default().to_owned(),
            count,
        })
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.count.value(value)));
    shares
}
