//! Names in a config that match nothing on this machine, usually misspelt.

use std::collections::BTreeSet;
use std::fs;

use ferretto_proto::FtraceConfig;

use super::config::{EventPattern, FtraceOptions};
use super::table;
use super::tracefs::Tracefs;

/// A name that matches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misnamed {
    /// The name in the config.
    pub name: String,
    /// The existing names, among which to find a similar one.
    pub known: Vec<String>,
    /// The kind of the name: `kernel event` or `category`.
    pub kind: &'static str,
    /// Other kernels have it: the schema has a message for it. A config for many machines may name
    /// it on purpose.
    pub exists_elsewhere: bool,
}

/// Returns the events and categories of a config that this machine does not have; none if tracefs
/// cannot be read.
pub fn misnamed(config: &FtraceConfig) -> Vec<Misnamed> {
    let (Ok(options), Ok(tracefs)) = (FtraceOptions::new(config), Tracefs::find()) else {
        return Vec::new();
    };
    let groups = groups(&tracefs);
    if groups.is_empty() {
        return Vec::new();
    }
    // Events of probes are created for the recording.
    let is_made = |group: &str| group.starts_with("perfetto_k");
    let mut found = Vec::new();
    for pattern in &options.events {
        let (name, known, exists_elsewhere) = match pattern {
            EventPattern::Group(group) if !groups.contains(group) => {
                let known = groups.iter().map(|group| format!("{group}/*"));
                let elsewhere = table::known_events().any(|event| event.group == group.as_str());
                (format!("{group}/*"), known.collect(), elsewhere)
            }
            EventPattern::Event(group, name)
                if !is_made(group) && tracefs.format(group, name).is_err() =>
            {
                let elsewhere = table::find(group, name).is_some();
                (
                    format!("{group}/{name}"),
                    events(&tracefs, &groups),
                    elsewhere,
                )
            }
            EventPattern::Name(name) if table::find_by_name(name).is_none() => {
                let known = table::known_events().map(|event| event.name.to_owned());
                (name.clone(), known.collect(), false)
            }
            _ => continue,
        };
        found.push(Misnamed {
            name,
            known,
            kind: "kernel event",
            exists_elsewhere,
        });
    }
    let known: Vec<String> = super::selection::categories().map(str::to_owned).collect();
    let categories = options.categories.iter();
    let unknown = categories.filter(|category| !known.contains(category));
    found.extend(unknown.map(|category| Misnamed {
        name: category.clone(),
        known: known.clone(),
        kind: "category",
        exists_elsewhere: false,
    }));
    found
}

/// Returns the names of all events of this kernel, `group/name`, in ascending order; none if
/// tracefs cannot be read.
pub fn kernel_events() -> Vec<String> {
    let Ok(tracefs) = Tracefs::find() else {
        return Vec::new();
    };
    let mut events = events(&tracefs, &groups(&tracefs));
    events.sort_unstable();
    events
}

fn groups(tracefs: &Tracefs) -> BTreeSet<String> {
    let entries = fs::read_dir(tracefs.root().join("events"));
    let entries = entries.into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn events(tracefs: &Tracefs, groups: &BTreeSet<String>) -> Vec<String> {
    let of_group = |group: &String| {
        let names = tracefs.events_of(group).into_iter();
        names
            .map(|name| format!("{group}/{name}"))
            .collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}
