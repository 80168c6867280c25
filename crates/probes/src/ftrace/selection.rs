//! Resolution of a config's events to pairs of group and name.

use std::collections::BTreeSet;

use super::config::{EventPattern, FtraceOptions};
use super::syscalls::Wanted;
use super::table;
use super::tracefs::Tracefs;

/// Group and name of an event.
pub(super) type EventKey = (String, String);

static CATEGORIES: &str = include_str!("../../data/categories.tsv");

/// The groups that are reserved for this program.
pub(crate) const KPROBE_GROUP: &str = "perfetto_kprobes";
/// See [`KPROBE_GROUP`].
pub(crate) const KRETPROBE_GROUP: &str = "perfetto_kretprobes";

/// Returns every event in `options`, with groups resolved on this kernel.
///
/// A name without a group that is in no table is added to `missing` instead.
pub(super) fn select(
    options: &FtraceOptions,
    fs: &Tracefs,
    missing: &mut Vec<String>,
) -> BTreeSet<EventKey> {
    let mut events = BTreeSet::new();
    let key = |group: &str, name: &str| (group.to_owned(), name.to_owned());
    for pattern in &options.events {
        match pattern {
            EventPattern::Group(group) => {
                events.extend(
                    fs.events_of(group)
                        .into_iter()
                        .map(|name| (group.clone(), name)),
                );
            }
            EventPattern::Event(group, name) => _ = events.insert(key(group, name)),
            EventPattern::Name(name) => match table::find_by_name(name) {
                Some(event) => _ = events.insert(key(event.group, event.name)),
                None => missing.push(name.clone()),
            },
        }
    }
    if matches!(options.syscalls, Wanted::Only(_)) {
        events.insert(key("raw_syscalls", "sys_enter"));
        events.insert(key("raw_syscalls", "sys_exit"));
    }
    if options.function_graph.is_some() {
        events.insert(key("ftrace", "funcgraph_entry"));
        events.insert(key("ftrace", "funcgraph_exit"));
    }
    if options.atrace {
        events.insert(key("ftrace", "print"));
        if !options.userspace_only {
            for category in &options.categories {
                events.extend(category_events(category, fs));
            }
        }
    }
    if options.throttle_rss_stat
        && supports_throttled_rss(fs)
        && events.remove(&key("kmem", "rss_stat"))
    {
        events.insert(key("synthetic", "rss_stat_throttled"));
    }
    events.retain(|(group, _)| group != KPROBE_GROUP && group != KRETPROBE_GROUP);
    events
}

fn supports_throttled_rss(fs: &Tracefs) -> bool {
    fs.format("synthetic", "rss_stat_throttled").is_ok()
        && fs.is_writable("events/kmem/rss_stat/trigger")
}

/// Returns the names of all categories.
pub(super) fn categories() -> impl Iterator<Item = &'static str> {
    let rows = CATEGORIES.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| Some(row.split_once('\t')?.0))
}

/// Returns the events of a category that this kernel has.
fn category_events(category: &str, fs: &Tracefs) -> Vec<EventKey> {
    let row = CATEGORIES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let (name, events) = line.split_once('\t')?;
            (name == category).then_some(events)
        });
    let mut events = Vec::new();
    for entry in row.unwrap_or("").split(' ') {
        let Some((group, name)) = entry.split_once('/') else {
            continue;
        };
        if name == "*" {
            let known = table::known_events().filter(|event| event.group == group);
            events.extend(known.map(|event| (group.to_owned(), event.name.to_owned())));
        } else {
            events.push((group.to_owned(), name.to_owned()));
        }
    }
    events.retain(|(group, name)| fs.format(group, name).is_ok());
    events
}
