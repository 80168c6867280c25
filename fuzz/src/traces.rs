//! Trace files: samples, track events, and reports about both.

use ferretto_trace::events::read_events;
use ferretto_trace::profile::{
    FoldOptions, Selection, Value, folded, hottest, pprof, processes, read_profile, threads,
};

/// A trace with samples, or what might be one.
pub fn traces(data: &[u8]) {
    let _ = ferretto_trace::summarize(data).map(|summary| format!("{summary:?}"));
    if let Ok(events) = read_events(data) {
        for event in &events.events {
            let _ = events.tracks.path(event.track);
        }
    }
    let Ok((profile, counts)) = read_profile(data, Selection::default()) else {
        return;
    };
    for line in folded(&profile, &counts, &FoldOptions::default()) {
        let (_, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<u64>().is_ok_and(|value| value > 0), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    let packed = pprof(&profile, &counts, None);
    assert!(ferretto_wire::Fields::new(&packed).all(|field| field.is_ok()));
    for value in [Value::Samples, Value::Weight] {
        let _ = hottest(&profile, &counts, value);
        let _ = (
            processes(&profile, &counts, value),
            threads(&profile, &counts, value),
        );
    }
    for (_, session) in profile.sessions() {
        assert!(!session.source.is_empty());
    }
}
