//! Remarks of data sources about their recording: instants of a special category.

use std::collections::BTreeSet;

use ferretto_format::track_event::TrackEvent;
use ferretto_text::amount::counted;

/// The category of the instants.
const CATEGORY: &[u8] = b"ferretto.remark";
/// The maximum number of remarks in a summary.
const MAX_REMARKS: usize = 32;
/// The maximum length of a remark, in characters.
const MAX_LENGTH: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Remarks {
    sentences: Vec<String>,
    known: BTreeSet<String>,
    left_out: u64,
}

impl Remarks {
    /// Reads a `TrackEvent`.
    pub(super) fn event(&mut self, event: &TrackEvent<'_>) {
        if event.category != Some(CATEGORY) {
            return;
        }
        let sentence = sentence(event.name.unwrap_or_default());
        if self.known.contains(&sentence) {
            return;
        }
        if self.sentences.len() >= MAX_REMARKS {
            self.left_out += 1;
            return;
        }
        self.known.insert(sentence.clone());
        self.sentences.push(sentence);
    }

    /// Returns the remarks in the order of the trace.
    pub(super) fn finish(mut self) -> Vec<String> {
        if self.left_out > 0 {
            let more = format!("{} left out", counted(self.left_out, "remark"));
            self.sentences.push(more);
        }
        self.sentences
    }
}

fn sentence(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(MAX_LENGTH);
    shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use ferretto_proto::fields::track_event;
    use ferretto_wire::encode;

    use super::*;

    fn instant(category: &str, name: &str) -> Vec<u8> {
        encode(|out| {
            out.string(track_event::CATEGORIES, category);
            out.string(track_event::NAME, name);
        })
    }

    #[test]
    fn remarks_are_deduplicated_and_bounded() {
        let mut remarks = Remarks::default();
        remarks.event(&TrackEvent::read(&instant("app", "another category")));
        for _ in 0..2 {
            remarks.event(&TrackEvent::read(&instant(
                "ferretto.remark",
                "a: not\nstarted",
            )));
        }
        assert_eq!(Remarks::default().finish(), [""; 0]);
        for number in 0..40 {
            remarks.event(&TrackEvent::read(&instant(
                "ferretto.remark",
                &number.to_string(),
            )));
        }
        remarks.event(&TrackEvent::read(&instant(
            "ferretto.remark",
            &"x".repeat(5000),
        )));
        let finished = remarks.finish();
        assert_eq!((&*finished[0], &*finished[1]), ("a: not started", "0"));
        assert_eq!(finished.len(), MAX_REMARKS + 1);
        assert_eq!(finished[MAX_REMARKS], "10 remarks left out");
        let mut long = Remarks::default();
        long.event(&TrackEvent::read(&instant(
            "ferretto.remark",
            &"x".repeat(5000),
        )));
        assert_eq!(long.finish()[0].len(), MAX_LENGTH);
    }
}
