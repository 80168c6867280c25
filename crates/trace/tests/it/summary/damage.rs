//! Summaries of truncated and damaged files.

use ferretto_trace::summarize;

use crate::summary::made::{Packet, Trace, compact, seconds};

// A file may be truncated at the end of a packet or inside of one.
#[test]
fn a_truncated_file_is_never_complete() {
    let instant = |p: &mut Packet<'_>| {
        p.varint(8, seconds(1));
        p.varint(10, 1);
        p.nested(11, |event| event.varint(9, 3));
    };
    let whole = Trace::default()
        .packet(|p| {
            p.varint(8, seconds(1));
            p.nested(69, |event| event.bool(2, true));
        })
        // Statistics from the middle of a recording are not final.
        .drained(|stats| stats.varint(12, 1))
        .packet(instant)
        .packet(|p| {
            p.varint(8, seconds(2));
            p.nested(69, |event| event.bool(5, true));
        })
        .packet(instant)
        .drained(|stats| stats.varint(15, 1));
    assert!(whole.summary().is_complete(), "{:?}", whole.summary());
    for cut in 1..whole.0.len() {
        let summary = summarize(&whole.0[..cut]).unwrap();
        assert!(!summary.is_complete(), "cut at {cut}: {summary:?}");
    }
    // Appended symbols are not a part of the recording.
    let whole = whole.packet(|p| p.nested(61, |symbols| symbols.string(1, "/bin/true")));
    assert!(whole.summary().is_complete(), "{:?}", whole.summary());
    // A damaged byte in the middle, or an incomplete packet after the statistics, is reported, too.
    let mut damaged = whole.0.clone();
    damaged.extend([0x0a, 5, 1]);
    let summary = summarize(&damaged[..]).unwrap();
    assert!(!summary.is_complete());
    let offset = format!("at byte {}", whole.0.len());
    let is_reported = summary.notes.iter().any(|note| note.ends_with(&offset));
    assert!(is_reported, "{:?}", summary.notes);
}

#[test]
fn a_truncated_file_is_summarized_up_to_its_end() {
    let mut trace = Trace::recording(0, 1, |_| {});
    trace.0.extend([0x0a, 50, 1, 2, 3]);
    let summary = trace.summary();
    assert_eq!(summary.packets, 5);
    assert_eq!(summary.bytes, trace.0.len() as u64);
    assert!(
        summary.notes[0].contains("ends inside a packet"),
        "{:?}",
        summary.notes
    );
}

#[test]
fn no_changed_byte_causes_a_panic() {
    let trace = Trace::recording(100, 110, |stats| {
        stats.nested(1, |buffer| {
            buffer.varint(1, u64::MAX);
            buffer.varint(3, u64::MAX);
        });
        stats.varint(8, u64::MAX);
        stats.varint(9, u64::MAX);
        stats.varint(10, u64::MAX);
    })
    .packet(|p| {
        compact(
            p,
            0,
            true,
            &[(101, 500, "make"), (103, 501, "worker"), (104, 0, "")],
        )
    });
    summarize(&trace.0[..]).unwrap();
    for at in 0..trace.0.len() {
        for value in [0x00, 0xff] {
            let mut bytes = trace.0.clone();
            bytes[at] = value;
            let _ = summarize(&bytes[..]);
        }
    }
}
