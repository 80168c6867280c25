//! The process and thread ids of tracks.

use std::collections::HashMap;

use ferretto_format::Fnv1a;
use ferretto_tables::Trace;

use super::writer::{NO_PROCESS, of_thread};

/// A process and thread id, of a real thread or of another track.
pub(super) type Shown = (i64, i64);

/// The first thread id given to tracks that are not a thread's.
const FIRST_TRACK: i64 = 1 << 33;

/// The ids of tracks that are not a thread's. They are the same in each part of a trace, although
/// the rows differ.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// The ids by the identity of the track.
    numbers: HashMap<u64, i64>,
}

impl Tracks {
    /// Returns the ids of a track, and its name if it is shown as a thread.
    pub(super) fn shown(&mut self, trace: &Trace, track: u32) -> (Shown, Option<String>) {
        let (tables, strings) = (trace.tables(), trace.strings());
        let rows = &tables.track;
        if let Some(utid) = rows.utid().get(track) {
            return (of_thread(trace, utid), None);
        }
        let upid = rows.upid().get(track);
        let pid = upid.map_or(NO_PROCESS, |upid| tables.process.pid().get(upid));
        let name = strings.text(rows.name().get(track));
        let mut key = Fnv1a::new()
            .update(&pid.to_ne_bytes())
            .update(name.as_bytes())
            .update(strings.text(rows.type_().get(track)).as_bytes());
        let sets = [
            rows.dimension_arg_set_id().get(track),
            rows.source_arg_set_id().get(track),
        ];
        for arg in sets
            .into_iter()
            .flatten()
            .flat_map(|set| tables.args.set(set))
        {
            let of = strings.text(arg.key);
            // Rows of this part.
            if matches!(of, "upid" | "utid") {
                continue;
            }
            key = key.update(of.as_bytes());
            key = match arg.value {
                ferretto_tables::schema::ArgValue::Text(text) => {
                    key.update(strings.text(text).as_bytes())
                }
                other => key.update(&other.as_int().unwrap_or(0).to_ne_bytes()),
            };
        }
        let next = FIRST_TRACK + self.numbers.len() as i64;
        let number = *self.numbers.entry(key.finish()).or_insert(next);
        ((pid, number), Some(name.to_owned()))
    }
}
