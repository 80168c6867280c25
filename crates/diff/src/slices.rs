//! Slices by the names of their ancestors.

use ferretto_tables::StringId;
use rustc_hash::FxHashMap;

use crate::context::{Context, common_name};
use crate::feature::{Feature, Kind};
use crate::statistics::{quantile, quantile_error};
use crate::values::{Values, WINDOWS};

/// The maximum number of paths. Slices of further ones are left out.
const MAX_PATHS: usize = 4096;
/// The maximum number of durations of a path that are kept.
const MAX_DURATIONS: usize = 1024;
/// The maximum number of names of a path.
const MAX_DEPTH: usize = 16;
/// The number of slices from which on their 99th percentile is compared.
const MIN_TAIL: usize = 200;

/// The slices of a path.
#[derive(Debug)]
struct Path {
    feature: Feature,
    parts: [i64; WINDOWS],
    own: i64,
    total: i64,
    /// Durations in the order of time: each `stride`-th.
    durations: Vec<f64>,
    stride: u64,
    count: u64,
}

impl Path {
    fn add(&mut self, duration: i64) {
        if self.count.is_multiple_of(self.stride) {
            if self.durations.len() == MAX_DURATIONS {
                let mut at = 0;
                self.durations.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.durations.push(duration as f64);
            }
        }
        self.count += 1;
        self.total = self.total.saturating_add(duration);
    }
}

/// Reads the slices.
pub(crate) fn read(context: &Context<'_>, values: &mut Values) {
    let (tables, strings) = (context.trace.tables(), context.trace.strings());
    let slices = &tables.slice;
    let compared = compared(context);
    let mut paths: Vec<Path> = Vec::new();
    let mut by_key: FxHashMap<(Option<u32>, u32, StringId), Option<u32>> = FxHashMap::default();
    let mut of_owner: FxHashMap<String, u32> = FxHashMap::default();
    let mut of_slice: Vec<Option<u32>> = vec![None; slices.len() as usize];
    let mut owner_ids: Vec<Option<u32>> = vec![None; compared.len()];
    for row in 0..slices.len() {
        let track = slices.track_id().get(row);
        if compared.get(track as usize) != Some(&true) {
            continue;
        }
        let name = slices.name().get(row);
        // System calls are compared as such.
        if strings.text(name).starts_with("sys_") {
            continue;
        }
        let parent = slices.parent_id().get(row);
        let above = parent.and_then(|parent| of_slice.get(parent as usize).copied().flatten());
        let owner_id = *owner_ids[track as usize].get_or_insert_with(|| {
            let next = of_owner.len() as u32;
            let subject = owner(context, track).subject();
            *of_owner.entry(subject).or_insert(next)
        });
        let path = *by_key.entry((above, owner_id, name)).or_insert_with(|| {
            let text = common_name(strings.text(name));
            let feature = match above {
                Some(above) => {
                    let above = &paths[above as usize].feature;
                    let depth = above.name.matches(" > ").count() + 1;
                    if depth >= MAX_DEPTH {
                        return None;
                    }
                    above.clone().name(&format!("{} > {text}", above.name))
                }
                None => owner(context, track).name(&text),
            };
            if paths.len() >= MAX_PATHS {
                return None;
            }
            // Names that differ in numbers only are the same path.
            if let Some(known) = paths.iter().rposition(|path| path.feature == feature) {
                return Some(known as u32);
            }
            paths.push(Path {
                feature,
                parts: [0; WINDOWS],
                own: 0,
                total: 0,
                durations: Vec::new(),
                stride: 1,
                count: 0,
            });
            Some(paths.len() as u32 - 1)
        });
        of_slice[row as usize] = path;
        let (start, duration) = (slices.ts().get(row), slices.dur().get(row));
        // Instants and slices without an end have no duration.
        let (Some(path), 0..) = (path, duration) else {
            continue;
        };
        if !context.range.contains(&start) {
            continue;
        }
        let known = &mut paths[path as usize];
        known.parts[context.window(start)] += 1;
        known.own = known.own.saturating_add(duration);
        known.add(duration);
        if let Some(above) = above {
            let above = &mut paths[above as usize];
            above.own = above.own.saturating_sub(duration);
        }
    }
    values.is_cut |= paths.len() >= MAX_PATHS;
    for (seed, path) in paths.into_iter().enumerate() {
        write(path, seed as u64, values);
    }
}

fn write(path: Path, seed: u64, values: &mut Values) {
    if path.count == 0 {
        return;
    }
    let of = |kind| Feature {
        kind,
        ..path.feature.clone()
    };
    values.add_parts(of(Kind::Slices), &path.parts);
    if path.total == 0 {
        return;
    }
    values.add(of(Kind::SelfTime), path.own.max(0) as f64);
    let mut sorted = path.durations.clone();
    sorted.sort_by(f64::total_cmp);
    let mut part = |kind, part| {
        let error = quantile_error(&path.durations, part, seed);
        values.set(of(kind), quantile(&sorted, part), error);
        if let Some(value) = values.entry(of(kind)) {
            value.total = path.total as f64;
        }
    };
    part(Kind::Median, 0.5);
    if path.count as usize >= MIN_TAIL {
        part(Kind::Tail, 0.99);
    }
}

/// Returns for each track if its slices are compared.
fn compared(context: &Context<'_>) -> Vec<bool> {
    let (tables, strings) = (context.trace.tables(), context.trace.strings());
    let tracks = &tables.track;
    let is_compared = |row: u32| {
        let type_ = strings.text(tracks.type_().get(row));
        // Those of CPUs vary with the machine.
        if type_.starts_with("cpu_") {
            return false;
        }
        match (tracks.utid().get(row), tracks.upid().get(row)) {
            (Some(thread), _) => context.has_thread(thread),
            (None, Some(process)) => context.has_process(process),
            (None, None) => context.command.is_none() || type_.contains("track_event"),
        }
    };
    (0..tracks.len()).map(is_compared).collect()
}

/// Returns the feature of all slices of a track.
fn owner(context: &Context<'_>, track: u32) -> Feature {
    let tracks = &context.trace.tables().track;
    match (tracks.utid().get(track), tracks.upid().get(track)) {
        (Some(thread), _) => Feature::of_process(Kind::Slices, &context.process_of(thread))
            .thread(&context.thread_name(thread)),
        (None, Some(process)) => Feature::of_process(Kind::Slices, &context.process_name(process)),
        (None, None) => {
            let name = context.trace.strings().text(tracks.name().get(track));
            Feature::of_process(Kind::Slices, "").thread(&common_name(name))
        }
    }
}
