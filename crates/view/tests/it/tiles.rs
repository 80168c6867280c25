//! The rows shown at each level of detail.

use std::collections::HashMap;

use crate::common::{Frame, counter, disk_request, json, slice};
use ferretto_view::{Circumstances, View, Window};

fn index(view: &View) -> Frame {
    Frame::read(&view.index(Circumstances::default()))
}

fn tiles(view: &View, node: u32, from: f64, to: f64, level: u8) -> Frame {
    Frame::read(&view.tiles(&[node], Window { from, to, level }))
}

fn random(state: &mut u32, below: u64) -> u64 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    u64::from(*state >> 8) % below
}

#[test]
fn every_slice_is_shown_once_at_every_level() {
    let mut events = String::new();
    let (mut state, mut at) = (7, 0);
    for n in 0..6000 {
        let dur = if random(&mut state, 50) == 0 {
            random(&mut state, 5000)
        } else {
            random(&mut state, 9)
        };
        events += &slice(1, &format!("s{}", n % 7), at, dur);
        at += dur + random(&mut state, 4) * random(&mut state, 40);
    }
    let view = json(&events);
    let length = view.duration() as f64;
    let node = index(&view).node(5, "*");
    let all = tiles(&view, node, 0.0, length + 1.0, 0);
    let (starts, durs) = (all.column("start"), all.column("dur"));
    assert_eq!(starts.len(), 6000);
    let ids = all.column("id").iter().enumerate();
    let index_by_id: HashMap<usize, usize> = ids.map(|(at, id)| (*id as usize, at)).collect();
    for level in 0..40 {
        let seen = tiles(&view, node, 0.0, length + 1.0, level);
        let count: f64 = seen.column("count").iter().sum();
        assert_eq!(count, 6000.0, "level {level}");
        let (mut at, step) = (0, (1_u64 << level) as f64);
        let mut wide = 0;
        for row in 0..seen.column("start").len() {
            let merged = seen.column("count")[row] as usize;
            let last = at + merged - 1;
            assert_eq!(seen.column("start")[row], starts[at]);
            let end = seen.column("start")[row] + seen.column("dur")[row];
            assert_eq!(end, starts[last] + durs[last]);
            let longest = durs[at..=last].iter().copied().fold(0.0, f64::max);
            let shown = seen.column("id")[row] as usize;
            assert_eq!(durs[index_by_id[&shown]], longest, "the longest is named");
            assert!(
                merged == 1 || longest < step,
                "only what is shorter than a step is merged"
            );
            wide += usize::from(longest >= step);
            at += merged;
        }
        // At most twice the necessary number: wide ones, and those between them.
        let bound = 2 * (2 * wide + 1 + (length / step) as usize + 1);
        assert!(
            seen.column("start").len() <= bound.max(256),
            "level {level}"
        );
    }
}

#[test]
fn a_window_has_the_rows_that_overlap_it() {
    let mut events = slice(1, "outer", 0, 1_000_000);
    for n in 0..2000 {
        events += &slice(1, "inner", n * 500, 400);
    }
    let view = json(&events);
    let node = index(&view).node(5, "*");
    for level in [0, 10, 17, 20] {
        let seen = tiles(&view, node, 300_000_000.0, 301_000_000.0, level);
        let depth = seen.column("depth");
        assert_eq!(depth.iter().filter(|depth| **depth == 0.0).count(), 1);
        assert_eq!((seen.column("start")[0], seen.column("dur")[0]), (0.0, 1e9));
        assert_eq!(seen.texts("name")[0], "outer");
        let inner: Vec<usize> = (0..depth.len()).filter(|row| depth[*row] == 1.0).collect();
        for row in &inner {
            let start = seen.column("start")[*row];
            assert!(start + seen.column("dur")[*row] > 300_000_000.0 && start < 301_000_000.0);
        }
        assert!(!inner.is_empty() && inner.len() <= 3, "{inner:?}");
    }
    let nothing = tiles(&view, node, -5.0, 0.0, 0);
    assert_eq!(nothing.column("start").len(), 0);
    let unknown = view.tiles(
        &[u32::MAX],
        Window {
            from: 0.0,
            to: 1e9,
            level: 0,
        },
    );
    assert_eq!(Frame::read(&unknown).column("rows"), [0.0]);
    // Times outside of the trace.
    for (from, to) in [(f64::MIN, f64::MAX), (f64::MAX, f64::MIN), (1e300, 1e301)] {
        tiles(&view, node, from, to, 63);
    }
}

#[test]
fn counters_keep_their_extremes() {
    let mut events = String::new();
    for n in 0..5000_u64 {
        let value = if n == 3333 { 1e6 } else { (n % 10) as f64 };
        events += &counter("queue", n * 10, value);
    }
    let view = json(&events);
    let index = index(&view);
    let node = index.node(6, "queue value");
    assert_eq!(index.column("max")[node as usize], 1e6);
    assert_eq!(index.column("min")[node as usize], 0.0);
    for level in 0..30 {
        let seen = tiles(&view, node, 0.0, 5e7, level);
        let max = seen.column("max").iter().copied().fold(0.0, f64::max);
        let min = seen.column("min").iter().copied().fold(9.0, f64::min);
        assert_eq!((min, max), (0.0, 1e6), "level {level}");
        assert_eq!(*seen.column("last").last().unwrap(), 9.0);
        if level > 14 {
            assert!(seen.column("time").len() <= 2 * (1 + (5e7 as u64 >> level)) as usize + 256);
        }
    }
    // The value before a window is still valid in it.
    let seen = tiles(&view, node, 12_345.0, 12_346.0, 0);
    assert_eq!(seen.column("time"), [10_000.0]);
}

#[test]
fn a_trace_without_events_has_no_nodes() {
    let view = json("");
    assert_eq!(view.nodes(), 0);
    let index = index(&view);
    assert_eq!(index.column("kind").len(), 0);
    assert_eq!(
        view.search("x", ferretto_view::SearchIn::All, 10)
            .expect("text")
            .len()
            % 8,
        0
    );
    assert_eq!(view.summary(0.0, 1e9, None)["names"], serde_json::json!([]));
}

#[test]
fn each_track_has_its_node_after_its_parent() {
    let mut events = String::new();
    for tid in 0..3000 {
        events += &slice(tid + 1, "s", u64::from(tid), 5);
    }
    let view = json(&events);
    let index = index(&view);
    let slices = index.column("kind").iter().filter(|kind| **kind == 5.0);
    assert_eq!(slices.count(), 3000);
    // Parents come before their children.
    for (node, parent) in index.column("parent").iter().enumerate() {
        assert!((*parent as i64) < node as i64);
    }
}

#[test]
fn the_track_of_an_unknown_disk_has_its_numbers() {
    let view = disk_request(1000, 2000);
    let index = index(&view);
    let node = index.node(5, "1:3");
    assert_eq!(index.column("rows")[node as usize], 1.0);
}
