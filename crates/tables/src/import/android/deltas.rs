//! Counters whose packets have the differences to the packet before: CPU time of users, and times
//! of wake locks.
//!
//! The first value of a counter in a sequence is absolute, and so is the first one after a restart
//! of incremental state.

use std::collections::{BTreeMap, BTreeSet};

use ferretto_proto::fields::kernel_wakelock_data::{self as wakelocks, wakelock};
use ferretto_proto::fields::{cpu_per_uid_data as cpu_time, trace_packet as packet};
use ferretto_wire::Fields;
use rustc_hash::FxHashMap;

use super::super::context::Context;
use super::super::event::Event;
use super::super::message::Message;
use super::super::sorter::Stream;
use super::super::{Input, Out};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// The maximum number of counters of a kind. Others are left out.
const MAX_KEYS: usize = 1 << 18;

/// A user and a cluster of CPUs.
type Key = (u32, u32);

/// The state of these counters.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    /// By sequence.
    cpu_times: FxHashMap<u32, (u32, CpuTimes)>,
    /// By sequence.
    locks: FxHashMap<u32, (u32, Locks)>,
    /// The last value of each key in any sequence.
    last: FxHashMap<Key, u64>,
    /// The sums of differences, by user or group of users.
    sums: FxHashMap<Key, u64>,
    /// The sums of the users of the system and of apps, by cluster.
    totals: [FxHashMap<u32, u64>; 2],
    cpu_time_counters: Sparse,
    lock_counters: Sparse,
    /// The tracks and values that wait in the sorter.
    waiting: Vec<(u32, f64)>,
}

/// CPU times since the last restart of incremental state.
#[derive(Debug, Default)]
struct CpuTimes {
    clusters: u32,
    values: FxHashMap<Key, u64>,
}

/// Wake locks since the last restart of incremental state.
#[derive(Debug, Default)]
struct Locks {
    /// The names and types.
    names: FxHashMap<u32, (StringId, &'static str)>,
    values: FxHashMap<StringId, u64>,
}

/// Returns the state of a sequence, a new one after a restart.
fn state<'a, T: Default>(all: &'a mut FxHashMap<u32, (u32, T)>, input: &Input<'_>) -> &'a mut T {
    let generation = input.state.state.generation;
    let (of, state) = all.entry(input.sequence).or_default();
    if *of != generation {
        (*of, *state) = (generation, T::default());
    }
    state
}

/// Returns the numbers of a field.
fn numbers(number: u32, bytes: &[u8]) -> impl Iterator<Item = u64> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.flat_map(|field| field.as_varints())
}

/// Returns the user that stands for users without names of their own: isolated and shared ones.
fn group(uid: u32) -> Option<u32> {
    let is_grouped = matches!(uid % 100_000, 50_000..60_000 | 90_000..);
    is_grouped.then_some(uid - uid % 10_000)
}

impl Deltas {
    /// Returns true if packets of this field are read here, in the order of the file.
    pub(crate) fn has(number: u32) -> bool {
        matches!(
            number,
            packet::CPU_PER_UID_DATA | packet::KERNEL_WAKELOCK_DATA
        )
    }

    /// Reads a packet, and pushes the values of its counters.
    pub(crate) fn read(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        if input.field == packet::CPU_PER_UID_DATA {
            self.cpu_times(cx, input, out);
        } else {
            self.wakelocks(cx, input, out);
        }
    }

    /// Reads a `CpuPerUidData`: for each user, the time on each cluster.
    fn cpu_times(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let state = state(&mut self.cpu_times, input);
        let clusters = Fields::find(cpu_time::CLUSTER_COUNT, input.bytes);
        if let Some(clusters) = clusters.and_then(|field| field.as_u64()) {
            state.clusters = clusters as u32;
        }
        let mut times = numbers(cpu_time::TOTAL_TIME_MS, input.bytes);
        // The values to add, by key, and the clusters of totals.
        let (mut touched, mut clusters) = (BTreeMap::new(), BTreeSet::new());
        'all: for uid in numbers(cpu_time::UID, input.bytes) {
            let uid = uid as u32;
            for cluster in 0..state.clusters.max(1) {
                let Some(time) = times.next() else {
                    break 'all;
                };
                let key = (uid, cluster);
                if self.last.len() >= MAX_KEYS && !self.last.contains_key(&key) {
                    continue;
                }
                let value = state.values.entry(key).or_insert(0);
                *value = value.saturating_add(time);
                let last = self.last.insert(key, *value).unwrap_or(*value);
                let delta = value.saturating_sub(last);
                let of = (group(uid).unwrap_or(uid), cluster);
                let sum = self.sums.entry(of).or_insert(0);
                *sum = sum.saturating_add(delta);
                let is_app = of.0 % 100_000 >= 10_000;
                let total = self.totals[usize::from(is_app)].entry(cluster);
                let total = total.or_insert(0);
                *total = total.saturating_add(delta);
                let value = if group(uid).is_some() { *sum } else { *value };
                touched.insert(of, value);
                clusters.insert((is_app, cluster));
            }
        }
        for (is_app, cluster) in clusters {
            let kind = if is_app { "Apps" } else { "System" };
            let value = self.totals[usize::from(is_app)][&cluster];
            let type_ = "android_cpu_per_uid_totals";
            let name = format!("CPU for {kind} CL{cluster}");
            let kind = cx.store.strings.intern(kind);
            let dimensions = [
                Dimension::Text("type", kind),
                Dimension::Int("cluster", cluster.into()),
            ];
            let track = track(cx, type_, &dimensions, &name);
            let rows = self
                .cpu_time_counters
                .add(cx, input.ts, track, value as f64);
            push(&mut self.waiting, cx, out, track, rows);
        }
        for ((uid, cluster), value) in touched {
            let name = format!("CPU for UID {uid} CL{cluster}");
            let dimensions = [
                Dimension::Int("uid", uid.into()),
                Dimension::Int("cluster", cluster.into()),
            ];
            let track = track(cx, "android_cpu_per_uid", &dimensions, &name);
            let rows = self
                .cpu_time_counters
                .add(cx, input.ts, track, value as f64);
            push(&mut self.waiting, cx, out, track, rows);
        }
        self.cpu_time_counters.end(cx.store.machine, input.ts);
    }

    /// Reads a `KernelWakelockData`.
    fn wakelocks(&mut self, cx: &mut Context, input: &Input<'_>, out: &mut Out<'_>) {
        let state = state(&mut self.locks, input);
        let fields = Fields::new(input.bytes).map_while(Result::ok);
        for field in fields.filter(|field| field.number == wakelocks::WAKELOCK) {
            let lock = Message::<4>::read(field.as_bytes().unwrap_or_default());
            let id = lock.u32(wakelock::WAKELOCK_ID);
            if state.names.contains_key(&id) {
                cx.store.stats.add(Stat::kernel_wakelock_reused_id, 1);
                continue;
            }
            let name = cx
                .store
                .strings
                .intern_bytes(lock.bytes(wakelock::WAKELOCK_NAME));
            let type_ = match lock.u32(wakelock::WAKELOCK_TYPE) {
                1 => "kernel",
                2 => "native",
                _ => "unknown",
            };
            if state.names.len() < MAX_KEYS {
                state.names.insert(id, (name, type_));
            }
        }
        let times = numbers(wakelocks::TIME_HELD_MILLIS, input.bytes);
        for (id, time) in numbers(wakelocks::WAKELOCK_ID, input.bytes).zip(times) {
            let Some((name, type_)) = state.names.get(&(id as u32)).copied() else {
                cx.store.stats.add(Stat::kernel_wakelock_unknown_id, 1);
                continue;
            };
            let value = state.values.entry(name).or_insert(0);
            *value = value.saturating_add(time);
            let shown = cx.store.strings.text(name).to_owned();
            let type_ = cx.store.strings.intern(type_);
            let dimensions = [
                Dimension::Text("wakelock_name", name),
                Dimension::Text("wakelock_type", type_),
            ];
            let track = track(cx, "android_kernel_wakelock", &dimensions, &shown);
            // In nanoseconds.
            let value = *value as f64 * 1e6;
            let rows = self.lock_counters.add(cx, input.ts, track, value);
            push(&mut self.waiting, cx, out, track, rows);
        }
        let errors = Fields::find(wakelocks::ERROR_FLAGS, input.bytes);
        let errors = errors.and_then(|field| field.as_u64()).unwrap_or(0);
        for (bit, stat) in [
            Stat::kernel_wakelock_zero_value_reported,
            Stat::kernel_wakelock_non_monotonic_value_reported,
            Stat::kernel_wakelock_implausibly_large_value_reported,
        ]
        .into_iter()
        .enumerate()
        {
            if errors >> bit & 1 != 0 {
                cx.store.stats.add(stat, 1);
            }
        }
        self.lock_counters.end(cx.store.machine, input.ts);
    }

    /// Adds a value that waited, by its number.
    pub(crate) fn counter(&self, cx: &mut Context, ts: i64, number: u32) {
        if let Some((track, value)) = self.waiting.get(number as usize) {
            let mut args = ArgSet::default();
            cx.counters
                .add(&mut cx.store, ts, *track, *value, &mut args);
        }
    }
}

fn track(cx: &mut Context, type_: &'static str, dimensions: &[Dimension], name: &str) -> u32 {
    let name = cx.store.strings.intern(name);
    let spec = TrackSpec::counter(type_, dimensions).named(name);
    let spec = spec.in_unit(&mut cx.store, "ms");
    cx.tracks.intern(&mut cx.store, spec)
}

/// Pushes rows of a counter.
fn push(
    waiting: &mut Vec<(u32, f64)>,
    cx: &mut Context,
    out: &mut Out<'_>,
    track: u32,
    rows: impl IntoIterator<Item = (i64, f64)>,
) {
    for (ts, value) in rows {
        let event = Event::Counter(waiting.len() as u32);
        waiting.push((track, value));
        out.push(&mut cx.store, Stream::Packets, ts, event);
    }
}

/// Counters without the values that repeat. A value that begins to differ is preceded by the last
/// equal one, so that the time of the difference is known.
#[derive(Debug, Default)]
struct Sparse {
    /// The last values of tracks, and the times of the rows that have them.
    values: FxHashMap<u32, (f64, i64)>,
    /// The times of the last packets, by machine.
    packets: FxHashMap<u32, i64>,
}

impl Sparse {
    /// Sets a value. Returns the rows to add.
    fn add(
        &mut self,
        cx: &Context,
        ts: i64,
        track: u32,
        value: f64,
    ) -> impl Iterator<Item = (i64, f64)> + use<> {
        let known = self.values.get(&track).copied();
        let differs = known.is_none_or(|(last, _)| last != value);
        let repeated = known.filter(|_| differs).and_then(|(last, written)| {
            let before = *self.packets.get(&cx.store.machine)?;
            (before > written).then_some((before, last))
        });
        if differs {
            self.values.insert(track, (value, ts));
        }
        let row = differs.then_some((ts, value));
        repeated.into_iter().chain(row)
    }

    /// Notes the end of a packet.
    fn end(&mut self, machine: u32, ts: i64) {
        self.packets.insert(machine, ts);
    }
}
