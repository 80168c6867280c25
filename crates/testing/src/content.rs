//! The content of a trace after import by our tables and by upstream's trace processor.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use ferretto_edit::Window;
use ferretto_tables::{Options, Trace};

/// Returns the content of a window as lines: slices, scheduling, thread states, and counter values
/// with their times.
pub fn content_of(bytes: &[u8], window: Window) -> Vec<String> {
    let trace = Trace::read(bytes, &Options::default()).unwrap();
    let (from, to) = (window.from as i64, window.to as i64);
    let text = |id| trace.strings().text(id).to_owned();
    let tables = trace.tables();
    let clipped = |ts: i64, dur: i64| {
        let end = if dur < 0 { to } else { (ts + dur).min(to) };
        (ts < to && end > from.max(ts))
            .then(|| format!("{} to {}", ts.max(from) - from, end - from))
    };
    let track = |id| text(tables.track.name().get(id));
    let tid = |utid| tables.thread.tid().get(utid);
    let mut lines = Vec::new();
    let slices = &tables.slice;
    for row in 0..slices.len() {
        let (name, depth) = (text(slices.name().get(row)), slices.depth().get(row));
        let of = track(slices.track_id().get(row));
        if let Some(when) = clipped(slices.ts().get(row), slices.dur().get(row)) {
            lines.push(format!("slice {of} {name} {depth} {when}"));
        }
    }
    let sched = &tables.sched_slice;
    for row in 0..sched.len() {
        let (tid, cpu) = (tid(sched.utid().get(row)), sched.ucpu().get(row));
        if let Some(when) = clipped(sched.ts().get(row), sched.dur().get(row)) {
            lines.push(format!("cpu {cpu} {tid:?} {when}"));
        }
    }
    let threads = &tables.thread;
    let mut ends: HashMap<i64, Vec<i64>> = HashMap::new();
    for row in 0..threads.len() {
        if let Some(end) = threads.end_ts().get(row) {
            ends.entry(tid(row)).or_default().push(end);
        }
    }
    let states = &tables.thread_state;
    // The last state of each thread in the window: a part knows of none after it.
    let mut latest = HashMap::new();
    let mut of_tid: HashMap<i64, Vec<(i64, u32)>> = HashMap::new();
    for row in 0..states.len() {
        let utid = states.utid().get(row);
        if states.ts().get(row) < to {
            latest.insert(utid, row);
        }
        let of_tid = of_tid.entry(tid(utid)).or_default();
        of_tid.push((states.ts().get(row), utid));
    }
    for row in 0..states.len() {
        // States with an unknown end are skipped if a later state follows in the window or the
        // thread ended.
        let (ts, mut dur) = (states.ts().get(row), states.dur().get(row));
        let utid = states.utid().get(row);
        let of = tid(utid);
        let mut ends = ends.get(&of).into_iter().flatten();
        let is_over = ends.any(|end| (ts..=from).contains(end));
        if dur < 0 && (is_over || latest.get(&utid) != Some(&row)) {
            continue;
        }
        // An exiting thread may run again; the tables contain it as another thread.
        if dur < 0 {
            let mut others = of_tid[&of].iter();
            let again = others.find(|(at, other)| *at > ts && *other != utid);
            dur = again.map_or(dur, |(at, _)| at - ts);
        }
        let state = text(states.state().get(row));
        if let Some(when) = clipped(ts, dur) {
            lines.push(format!("state {of:?} {state} {when}"));
        }
    }
    let counters = &tables.counter;
    let mut before = std::collections::BTreeMap::new();
    for row in 0..counters.len() {
        let (ts, value) = (counters.ts().get(row), counters.value().get(row));
        let track = counters.track_id().get(row);
        let upid = tables.track.upid().get(track);
        if upid.is_some_and(|upid| {
            tables
                .process
                .end_ts()
                .get(upid)
                .is_some_and(|end| end <= from)
        }) {
            continue;
        }
        let pid = upid.map(|upid| tables.process.pid().get(upid));
        let whose = pid.map_or_else(String::new, |pid| format!(" of {pid}"));
        let of = format!("{}{whose}", text(tables.track.name().get(track)));
        match ts {
            _ if ts <= from => drop(before.insert(of, value)),
            _ if ts < to => lines.push(format!("counter {of} {value} {}", ts - from)),
            _ => {}
        }
    }
    lines.extend(
        before
            .iter()
            .map(|(of, value)| format!("counter {of} {value} before")),
    );
    lines.sort();
    lines
}

/// Returns the errors that the import counted.
pub fn errors(bytes: &[u8]) -> Vec<String> {
    let trace = Trace::read(bytes, &Options::default()).unwrap();
    let stats = &trace.tables().stats;
    let text = |id| trace.strings().text(id).to_owned();
    (0..stats.len())
        .filter(|row| text(stats.severity().get(*row)) == "error" && stats.value().get(*row) > 0)
        .map(|row| text(stats.name().get(row)))
        .collect()
}

/// Runs a query with upstream's trace processor, if it is available.
pub fn upstream(bytes: &[u8], query: &str) -> Option<String> {
    let folder = PathBuf::from(std::env::var_os("FERRETTO_UPSTREAM")?);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let asked = Command::new(folder.join("trace_processor_shell"))
        .arg("query")
        .arg(file.path())
        .arg(query)
        .output();
    let answer = asked.expect("FERRETTO_UPSTREAM is a folder with trace_processor_shell");
    Some(String::from_utf8(answer.stdout).unwrap())
}

/// Checks that upstream's import has no errors.
pub fn check_upstream(bytes: &[u8]) {
    let query = "select name || ' ' || value from stats where severity = 'error' and value > 0";
    match upstream(bytes, query) {
        Some(answer) => assert_eq!(answer.lines().skip(1).count(), 0, "{answer}"),
        None => {
            println!("skipped: FERRETTO_UPSTREAM does not name the folder of upstream's programs")
        }
    }
}

pub fn differences(whole: &[String], part: &[String]) -> String {
    let mut text = String::new();
    let of_whole: HashSet<&String> = whole.iter().collect();
    let of_part: HashSet<&String> = part.iter().collect();
    for line in of_whole.difference(&of_part) {
        writeln!(text, "only in the whole: {line}").unwrap();
    }
    for line in of_part.difference(&of_whole) {
        writeln!(text, "only in the part: {line}").unwrap();
    }
    text
}
