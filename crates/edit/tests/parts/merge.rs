//! Merging several traces into one.

use std::io::Cursor;

use ferretto_edit::{Every, Window, cut, merge};
use ferretto_proto::fields::{trace_packet as packet, track_event};
use ferretto_tables::{Options, Trace};
use ferretto_testing::content::{check_upstream, content_of, errors};
use ferretto_trace::Limits;

use crate::recording::{MS, SECOND, START, recording, snapshot, write};
use crate::split::split;

#[test]
fn merged_parts_have_the_content_of_the_whole() {
    let whole = recording(20);
    let mut parts: Vec<_> = split(&whole, Every::Nanoseconds(5 * SECOND))
        .into_iter()
        .map(Cursor::new)
        .collect();
    let names = vec!["part"; parts.len()];
    let mut merged = Vec::new();
    let taken = merge(&mut parts, &names, Limits::default(), [3; 16], &mut merged).unwrap();
    assert!(taken.len() >= 3, "{taken:?}");
    let window = Window {
        from: START + 7 * SECOND,
        to: START + 8 * SECOND,
    };
    let slices = |bytes: &[u8]| -> Vec<String> {
        let all = content_of(bytes, window).into_iter();
        let parsed = all.filter(|line| line.starts_with("slice") && line.contains("parse"));
        // Slices across a boundary are repeated, so the window avoids boundaries.
        parsed
            .map(|line| line.splitn(5, ' ').last().unwrap().to_owned())
            .collect()
    };
    assert_eq!(slices(&merged), slices(&whole));
    assert_eq!(errors(&merged), [] as [&str; 0]);
    check_upstream(&merged);
}

#[test]
fn parts_merged_in_any_order_have_no_errors() {
    let whole = recording(30);
    // Between kernel events, and at one of them.
    let moments = [3_005, 12_005, 25_000].map(|ms| START + ms * MS);
    let parts: Vec<Vec<u8>> = moments
        .windows(2)
        .map(|window| {
            let (from, to) = (window[0], window[1]);
            let mut part = Vec::new();
            cut(
                Cursor::new(&whole),
                Window { from, to },
                Limits::default(),
                [9; 16],
                &mut part,
            )
            .unwrap();
            part
        })
        .collect();
    for order in [[0, 1], [1, 0]] {
        let mut both = order.map(|part: usize| Cursor::new(&parts[part]));
        let mut merged = Vec::new();
        merge(
            &mut both,
            &["a", "b"],
            Limits::default(),
            [3; 16],
            &mut merged,
        )
        .unwrap();
        assert_eq!(errors(&merged), [] as [&str; 0]);
        check_upstream(&merged);
    }
}

#[test]
fn traces_of_other_machines_are_related_by_wall_clock_time() {
    let ours = recording(3);
    // Another machine, started an hour earlier: its boot time is greater at the same wall clock
    // time.
    let mut theirs = Vec::new();
    let at = START + 3600 * SECOND;
    write(&mut theirs, 1, |out| {
        let real = START + 1_700_000_000 * SECOND;
        snapshot(out, &[(6, at, false), (1, real, false)]);
    });
    write(&mut theirs, 5, |out| {
        out.varint(packet::TIMESTAMP, at + SECOND);
        out.varint(packet::SEQUENCE_FLAGS, 1);
        out.nested(packet::TRACK_EVENT, |out| {
            out.varint(track_event::TYPE, 3);
            out.string(track_event::NAME, "theirs");
        });
    });
    let mut merged = Vec::new();
    let mut both = [Cursor::new(ours), Cursor::new(theirs)];
    merge(
        &mut both,
        &["ours", "theirs"],
        Limits::default(),
        [3; 16],
        &mut merged,
    )
    .unwrap();
    let trace = Trace::read(&merged[..], &Options::default()).unwrap();
    let slices = &trace.tables().slice;
    let name = |row: &u32| trace.strings().text(slices.name().get(*row)) == "theirs";
    let row = (0..slices.len()).find(name).unwrap();
    assert!(
        slices
            .ts()
            .get(row)
            .abs_diff((START + SECOND).cast_signed())
            < 1000
    );
    assert_eq!(errors(&merged), [] as [&str; 0]);
}
