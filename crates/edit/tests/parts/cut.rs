//! Cutting the part of a trace between two times.

use std::io::{self, Cursor};

use ferretto_edit::{EditError, Window, cut, extent};
use ferretto_testing::content::{check_upstream, content_of, differences, errors, upstream};
use ferretto_trace::Limits;

use crate::recording::{MS, SECOND, START, recording};

/// The length of the long recording, in seconds.
const LONG: u64 = 600;

fn part(trace: &[u8], window: Window) -> Vec<u8> {
    let mut out = Vec::new();
    cut(
        Cursor::new(trace),
        window,
        Limits::default(),
        [9; 16],
        &mut out,
    )
    .unwrap();
    out
}

#[test]
fn a_second_cut_from_ten_minutes_has_the_same_content() {
    let whole = recording(LONG);
    // Not at the time of an event.
    let from = START + LONG / 2 * SECOND + 123 * MS / 10;
    let window = Window {
        from,
        to: from + SECOND,
    };
    let part = part(&whole, window);
    assert!(part.len() < whole.len() / 100, "{}", part.len());
    assert_eq!(errors(&part), [] as [&str; 0]);
    let (of_whole, of_part) = (content_of(&whole, window), content_of(&part, window));
    assert!(of_whole.len() > 300, "{}", of_whole.len());
    assert_eq!(differences(&of_whole, &of_part), "");
    // The state has the timestamp just before the part.
    let bounds = extent(&part[..], Limits::default()).unwrap();
    assert_eq!(bounds.from, from - 1);
    let summary = ferretto_trace::summarize(&part[..]).unwrap();
    assert_eq!(summary.duration_ns, Some(bounds.to - 1 - bounds.from));
    check_upstream(&part);
    let (from, to) = (window.from, window.to);
    let query = format!(
        "select count(*), sum(e - s) from (select max(ts, {from}) s, \
         min(iif(dur < 0, {to}, ts + dur), {to}) e from sched) where e > s"
    );
    assert_eq!(upstream(&whole, &query), upstream(&part, &query));
}

#[test]
fn a_part_of_a_part_equals_a_direct_cut() {
    let whole = recording(70);
    let from = START + 20 * SECOND;
    let longer = part(
        &whole,
        Window {
            from,
            to: from + 45 * SECOND,
        },
    );
    let window = Window {
        from: from + 35 * SECOND,
        to: from + 36 * SECOND,
    };
    let (once, twice) = (part(&whole, window), part(&longer, window));
    assert_eq!(
        differences(&content_of(&once, window), &content_of(&twice, window)),
        ""
    );
    assert_eq!(errors(&twice), [] as [&str; 0]);
}

#[test]
fn an_empty_window_is_reported_with_the_extent_of_the_trace() {
    let whole = recording(2);
    let window = Window { from: 5, to: 10 };
    let cut = cut(
        Cursor::new(&whole),
        window,
        Limits::default(),
        [9; 16],
        io::sink(),
    );
    let text = cut.unwrap_err().to_string();
    assert!(
        text.contains("the trace is 2.0") && text.contains("from 1000"),
        "{text}"
    );
}

#[test]
fn a_full_disk_is_reported() {
    let whole = recording(2);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let window = Window {
        from: START + SECOND,
        to: START + 2 * SECOND,
    };
    let cut = cut(
        Cursor::new(&whole),
        window,
        Limits::default(),
        [9; 16],
        &full,
    );
    let Err(EditError::Write(error)) = cut else {
        panic!("expected a write error");
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
