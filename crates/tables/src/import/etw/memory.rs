//! Counters of memory pages.

use ferretto_proto::fields::mem_info_etw_event as field;
use ferretto_wire::Fields;

use super::Context;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// The counters, which are 0 if an event lacks them.
const COUNTERS: [(u32, &str); 10] = [
    (field::ZERO_PAGE_COUNT, "Zero"),
    (field::FREE_PAGE_COUNT, "Free"),
    (field::MODIFIED_PAGE_COUNT, "Modified"),
    (field::MODIFIED_NO_WRITE_PAGE_COUNT, "ModifiedNoWrite"),
    (field::BAD_PAGE_COUNT, "Bad"),
    (field::MODIFIED_PAGE_COUNT_PAGE_FILE, "ModifiedPageFile"),
    (field::PAGED_POOL_PAGE_COUNT, "PagedPool"),
    (field::NON_PAGED_POOL_PAGE_COUNT, "NonPagedPool"),
    (field::MDL_PAGE_COUNT, "Mdl"),
    (field::COMMIT_PAGE_COUNT, "Commit"),
];

/// The counters for each priority.
const BY_PRIORITY: [(u32, &str); 2] = [
    (field::STANDBY_PAGE_COUNTS, "Standby"),
    (field::REPURPOSED_PAGE_COUNTS, "Repurposed"),
];

/// The largest number of priorities. Windows has eight.
const MAX_PRIORITIES: usize = 64;

/// Parses a `MemInfoEtwEvent`.
pub(super) fn parse(cx: &mut Context, ts: i64, body: &[u8]) {
    for (number, name) in COUNTERS {
        let count = Fields::find(number, body).and_then(|field| field.as_u64());
        add(cx, ts, name, count.unwrap_or(0));
    }
    for (number, name) in BY_PRIORITY {
        let fields = Fields::new(body).map_while(Result::ok);
        let counts = fields.filter(|field| field.number == number);
        let counts = counts.filter_map(|field| field.as_u64());
        for (priority, count) in counts.take(MAX_PRIORITIES).enumerate() {
            add(cx, ts, &format!("{name} Pri-{priority}"), count);
        }
    }
}

fn add(cx: &mut Context, ts: i64, kind: &str, count: u64) {
    let store = &mut cx.store;
    let kind = store.strings.intern(kind);
    let name = format!("{} Page Count", store.strings.text(kind));
    let name = store.strings.intern(&name);
    let dimensions = [Dimension::Text("counter_type", kind)];
    let spec = TrackSpec::counter("etw_meminfo", &dimensions).named(name);
    let spec = spec.in_unit(store, "pages");
    let track = cx.tracks.intern(store, spec);
    let mut args = ArgSet::default();
    cx.counters.add(store, ts, track, count as f64, &mut args);
}
