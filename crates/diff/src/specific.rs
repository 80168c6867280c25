//! The choice among changes that tell the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::Change;
use crate::feature::Feature;

/// Returns true if a change is a part of another one, or that of it.
pub(crate) fn is_part(change: &Change, of: &Change) -> bool {
    let is_above = |one: &Change, other: &Change| {
        let mut all = one.feature.parent().into_iter().chain(one.feature.same());
        all.any(|feature| feature == other.feature)
    };
    is_above(change, of) || is_above(of, change)
}

/// Keeps, of changes that tell the same, the one that tells the most.
pub(crate) fn most_specific(changes: Vec<Change>) -> Vec<Change> {
    /// The share of a change that its parts have to explain.
    const MOST: f64 = 0.7;
    let mut by_feature: BTreeMap<Feature, Change> = changes
        .into_iter()
        .map(|change| (change.feature.clone(), change))
        .collect();
    // Parents before their parts: the feature of a process before those of its threads.
    let level = |feature: &Feature| (!feature.detail.is_empty(), !feature.thread.is_empty());
    let mut parents: Vec<Feature> = by_feature.keys().cloned().collect();
    parents.sort_by_key(|feature| level(feature));
    for parent in parents {
        let Some(whole) = by_feature.get(&parent).map(Change::difference) else {
            continue;
        };
        let parts: Vec<Feature> = by_feature
            .values()
            .filter(|change| change.feature.parent().as_ref() == Some(&parent))
            .filter(|change| change.difference() * whole > 0.0)
            .map(|change| change.feature.clone())
            .collect();
        if parts.is_empty() {
            continue;
        }
        let sum: f64 = parts.iter().map(|part| by_feature[part].difference()).sum();
        if sum / whole >= MOST {
            by_feature.remove(&parent);
        } else {
            let removed = parts.iter().filter_map(|part| by_feature.remove(part));
            let size = |part: &Change| part.difference().abs();
            let most = removed.max_by(|a, b| size(a).total_cmp(&size(b)));
            if let (Some(most), Some(whole)) = (most, by_feature.get_mut(&parent)) {
                whole.mostly = match most.feature.detail.as_str() {
                    "" => most.feature.thread,
                    detail => detail.to_owned(),
                };
            }
        }
    }
    // A time on the critical path tells more than the same time on CPUs.
    let same: BTreeSet<Feature> = by_feature.keys().flat_map(Feature::same).collect();
    by_feature.retain(|feature, _| {
        let parent = feature.parent();
        !same.contains(feature) && parent.is_none_or(|parent| !same.contains(&parent))
    });
    by_feature.into_values().collect()
}

pub(crate) fn ranked(mut changes: Vec<Change>) -> Vec<Change> {
    changes.sort_by(|a, b| {
        let by_size = b.size.total_cmp(&a.size);
        by_size.then_with(|| a.feature.cmp(&b.feature))
    });
    changes
}
