//! Sentences about the limits of a comparison, and facts that differ beside its changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::options;
use crate::recording::{Recording, Scope};
use crate::variation::Busyness;

/// The duration in nanoseconds of a command below which one recording each tells little.
const SHORT: f64 = 1e8;

/// Returns the facts that differ between all recordings before and all after.
pub(crate) fn setup(before: &[Recording], after: &[Recording]) -> Vec<(String, String, String)> {
    let values = |of: &[Recording]| {
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in of.iter().flat_map(|recording| &recording.setup) {
            values
                .entry(name.clone())
                .or_default()
                .insert(value.clone());
        }
        values
    };
    let (mut before, mut after) = (values(before), values(after));
    if let (Some(before), Some(after)) = (before.get_mut("config"), after.get_mut("config")) {
        let only = (
            options::without(before, after),
            options::without(after, before),
        );
        if only != (String::new(), String::new()) {
            (*before, *after) = (BTreeSet::from([only.0]), BTreeSet::from([only.1]));
        }
    }
    let text = |values: Option<&BTreeSet<String>>| {
        let values = values.into_iter().flatten().cloned();
        values.collect::<Vec<_>>().join(" or ")
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| (name.clone(), text(before.get(name)), text(after.get(name))))
        .collect()
}

/// Returns sentences about what a comparison cannot tell.
pub(crate) fn remarks(
    before: &[Recording],
    after: &[Recording],
    busyness: Busyness,
) -> Vec<String> {
    let all = || before.iter().chain(after);
    let mut remarks = Vec::new();
    let mut add = |text: &str| remarks.push(text.to_owned());
    if before.len() == 1 && after.len() == 1 {
        add(
            "One recording each: the variation between recordings is assumed, not known. Compare \
             several with --before and --after.",
        );
        let is_short = |recording: &Recording| {
            recording.scope == Scope::Command && recording.own_duration < SHORT
        };
        if all().any(is_short) {
            add(
                "The command is short: chance alone changes its times by milliseconds, so changes of \
                 less than 10 ms are only possible ones.",
            );
        }
    } else if before.len() + after.len() < 6 {
        add("Few recordings: only large changes are certain. Compare five of each.");
    }
    if busyness.most > 0.2 {
        let share = (busyness.most * 100.0).round();
        remarks.push(format!(
            "The machine was busy: threads had no CPU for {share} % of the time that they were \
             ready. Smaller changes are not found."
        ));
    }
    let mut add = |text: &str| remarks.push(text.to_owned());
    if all().any(|recording| !recording.recorded.switches) {
        add(
            "Not all recordings have scheduling: times on CPUs and waits are not compared. Record \
             it with ferretto record --why.",
        );
    }
    if all().any(|recording| recording.lacks_switches) {
        add(
            "The kernel left out switches of threads: what ran before the next one is unknown \
             (ferretto summary has the CPUs and times).",
        );
    }
    let lossy = |of: &[Recording]| of.iter().filter(|recording| recording.has_losses()).count();
    match (lossy(before), lossy(after)) {
        (0, 0) => {}
        (0, _) => {
            add("Data was lost after the change only. What is missing there looks like less.")
        }
        (_, 0) => {
            add("Data was lost before the change only. What is missing there looks like more.")
        }
        _ => add("Data of recordings was lost, which may look like a change."),
    }
    if before
        .iter()
        .chain(after)
        .any(|recording| recording.values.is_cut)
    {
        add("A recording has too many different names; some are left out.");
    }
    remarks
}
