//! The contents of a trace in upstream's importer.

use ferretto_interop::importer::Importer;

/// Slices and instants with their parents and tracks.
const SLICES: &str = "select s.name, s.category, s.depth, sign(s.dur) as length, p.name as parent, \
     t.name as track, th.name as thread from slice s join track t on s.track_id = t.id \
     left join slice p on s.parent_id = p.id left join thread_track tt on tt.id = t.id \
     left join thread th using (utid) order by s.ts, s.id";
const ARGUMENTS: &str = "select s.name, a.key, a.value_type, a.display_value from slice s \
     join args a using (arg_set_id) order by s.ts, s.id, a.key";
const FLOWS: &str = "select o.name as source, i.name as target from flow f join slice o on f.slice_out = o.id \
     join slice i on f.slice_in = i.id order by o.ts, i.ts";
const COUNTERS: &str = "select t.name, c.value from counter c join counter_track t on c.track_id = t.id \
     order by c.ts, c.id";
/// Tracks other than those of threads, with their parents.
const TRACKS: &str = "select t.name, p.name as parent from track t left join track p on t.parent_id = p.id \
     where t.type like '%track_event%' order by t.name, p.name";

/// The contents of a trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    slices: Vec<String>,
    arguments: Vec<String>,
    flows: Vec<String>,
    counters: Vec<String>,
    tracks: Vec<String>,
    /// The errors and losses that the importer counts.
    pub(crate) complaints: Vec<String>,
}

impl Shown {
    /// # Panics
    ///
    /// If the contents differ from the script.
    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.complaints, Vec::<String>::new());
        assert_eq!(self.slices.len(), 15, "{:#?}", self.slices);
        assert_eq!(self.flows, [r#""hand over","taken over""#]);
        assert_eq!(self.counters.len(), 4, "{:?}", self.counters);
        let least = format!("\"debug.least\",\"int\",\"{}\"", i64::MIN);
        assert!(self.arguments.iter().any(|row| row.contains(&least)));
        assert!(self.tracks.iter().any(|row| row == r#""room","floor""#));
    }
}

/// Imports a trace and returns its contents.
pub(crate) fn show(importer: &Importer, trace: &[u8]) -> Shown {
    let query = |query| importer.query(trace, query);
    Shown {
        slices: query(SLICES),
        arguments: query(ARGUMENTS),
        flows: query(FLOWS),
        counters: query(COUNTERS),
        tracks: query(TRACKS),
        complaints: importer.complaints(trace),
    }
}
