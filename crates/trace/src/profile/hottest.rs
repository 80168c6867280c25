//! Functions, processes and threads ranked by their samples.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Profile;
use super::allocating::allocates_for_others;
use super::counts::{Count, StackCounts, Value};
use super::function::{FunctionId, Origin};

/// A function with its share of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFunction {
    /// Its name, or its address if the name is unknown.
    pub name: String,
    /// The file name of its program or library, `[kernel]`, or empty.
    pub module: String,
    /// Samples in the function itself.
    pub own: Count,
    /// Samples in the function or its callees.
    pub total: Count,
}

/// A process or thread with its share of the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The machine.
    pub machine: u32,
    /// The id of the process or thread.
    pub id: i32,
    /// Its name; empty if the trace has none.
    pub name: String,
    /// Its samples.
    pub count: Count,
}

/// Returns the functions in descending order of their own samples. A recursive function counts once
/// per sample; addresses without a name count as one function per file. Off-CPU time counts for the
/// waiting function instead of the kernel's scheduler.
pub fn hottest(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<HotFunction> {
    ranked(profile, counts, value, |_| true)
}

/// Returns the functions in descending order of their allocations. Allocations of allocators and
/// standard libraries count for their callers.
pub fn sites(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<HotFunction> {
    ranked(profile, counts, value, |name| !allocates_for_others(name))
}

/// Returns the functions in descending order of their own samples. The samples of a callstack count
/// for its innermost function that `counts_itself` accepts, or for the innermost one if it accepts
/// none.
fn ranked(
    profile: &Profile,
    counts: &StackCounts,
    value: Value,
    counts_itself: fn(&str) -> bool,
) -> Vec<HotFunction> {
    let mut by_stack: HashMap<_, Count> = HashMap::new();
    for (key, count) in counts.iter(profile) {
        by_stack.entry(key.stack).or_default().add(count);
    }
    let is_off_cpu = counts.is_off_cpu(profile);
    let mut groups = Groups::default();
    let mut seen: HashSet<usize> = HashSet::new();
    for (stack, count) in by_stack {
        seen.clear();
        let (mut innermost, mut accepted) = (None, None);
        for line in profile.lines(profile.shown_stack(stack, is_off_cpu)) {
            let Some(group) = groups.of(profile, line.function, counts_itself) else {
                continue;
            };
            if seen.insert(group) {
                groups.hot[group].total.add(count);
            }
            innermost = Some(group);
            if groups.accepted[group] {
                accepted = Some(group);
            }
        }
        if let Some(group) = accepted.or(innermost) {
            groups.hot[group].own.add(count);
        }
    }
    let mut hottest = groups.hot;
    hottest.sort_by(|one, other| {
        let heat = |hot: &HotFunction| (hot.own.value(value), hot.total.value(value));
        let by_name = || (&one.name, &one.module).cmp(&(&other.name, &other.module));
        heat(other).cmp(&heat(one)).then_with(by_name)
    });
    hottest
}

/// Groups of functions with the same name in the same file.
#[derive(Debug, Default)]
struct Groups {
    hot: Vec<HotFunction>,
    /// True for groups that `counts_itself` accepts, in the order of `hot`.
    accepted: Vec<bool>,
    by_name: HashMap<(String, String), usize>,
    known: HashMap<FunctionId, Option<usize>>,
}

impl Groups {
    /// Returns the index of a function's group in `hot`; `None` for markers that are not functions.
    fn of(
        &mut self,
        profile: &Profile,
        id: FunctionId,
        counts_itself: fn(&str) -> bool,
    ) -> Option<usize> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let group = self.find(profile, id, counts_itself);
        self.known.insert(id, group);
        group
    }

    fn find(
        &mut self,
        profile: &Profile,
        id: FunctionId,
        counts_itself: fn(&str) -> bool,
    ) -> Option<usize> {
        let function = profile.function(id)?;
        let name = match function.origin {
            Origin::Truncated => return None,
            Origin::Unknown if !function.module.is_empty() => "[no symbol]".to_owned(),
            _ => function.name.to_string(),
        };
        let module = function.module.to_string();
        let hot = &mut self.hot;
        let group = self.by_name.entry((name.clone(), module.clone()));
        Some(*group.or_insert_with(|| {
            self.accepted.push(counts_itself(&name));
            hot.push(HotFunction {
                name,
                module,
                own: Count::default(),
                total: Count::default(),
            });
            hot.len() - 1
        }))
    }
}

/// Returns the processes in descending order of samples.
pub fn processes(profile: &Profile, counts: &StackCounts, value: Value) -> Vec<Share> {
    let name = |machine, pid| profile.process_name(machine, pid);
    let keys = counts.iter(profile);
    shares(
        keys.map(|(key, count)| (key.machine, key.pid, count)),
        name,
        value,
    )
}

/// Returns the threads in descending order of samples.
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
