//! The ranks of planted changes among those that `diff` finds.

use std::path::PathBuf;

use ferretto_diff::{Change, Comparison, Limits, Recording, TABLES};
use ferretto_tables::{Continue, Options, Trace};

/// A kind of change: the kind before it, its name, and words of which the true cause has one. They
/// begin with the direction of the change, and `&` is between words that it has to have all.
pub(crate) type Kind = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
pub(crate) const KINDS: &[&[Kind]] = &[
    &[
        ("", "slower", &["+ parse"]),
        ("", "faster", &["- parse"]),
        ("", "deeper", &["+ render"]),
        ("", "function", &["+ validate"]),
    ],
    &[
        ("", "stride", &["+ walk"]),
        ("", "longlock", &["+ hold_lock"]),
        ("", "locksleep", &["+ waited for a timer & (changed waited for a lock)"]),
        ("", "newlock", &["+ hold_other_lock", "+ newholder"]),
    ],
    &[
        ("", "convoy", &["+ contend"]),
        ("", "producer", &["+ produce"]),
        ("", "spin", &["+ spin_wait"]),
        ("", "join", &["+ work_item"]),
    ],
    &[
        ("", "thread", &["+ newhelper"]),
        ("", "threads", &["+ clone", "+ threads", "+ waited for its creation"]),
        ("", "serial", &["+ changed: & share", "- sharer"]),
        ("", "pipe", &["+ answer_pipe"]),
    ],
    &[
        ("", "backend", &["+ waited for a timer & (changed waited for a pipe)"]),
        ("", "socket", &["+ answer_socket"]),
        ("", "tcp", &["+ answer_tcp"]),
        ("", "epoll", &["+ answer_events"]),
    ],
    &[
        ("", "child", &["+ child_work"]),
        ("", "programs", &["+ true", "+ execve", "+ vfork"]),
        ("", "signal", &["+ handle_signal"]),
        ("", "message", &["+ send_message"]),
    ],
    &[
        ("", "semset", &["+ post_set"]),
        ("", "filelock", &["+ hold_file"]),
        ("", "calls", &["+ getppid"]),
        ("", "stats", &["+ stat"]),
    ],
    &[
        ("", "yields", &["+ sched_yield"]),
        ("", "opens", &["+ open"]),
        ("", "maps", &["+ mmap", "+ munmap"]),
        ("", "longcalls", &["+ getrandom"]),
    ],
    &[
        ("", "smallwrites", &["+ write"]),
        ("", "smallreads", &["+ read"]),
        ("", "longtimer", &["+ waited for a timer"]),
        ("", "newtimer", &["+ waited for a timer"]),
    ],
    &[
        ("", "cold", &["+ disk", "+ read:"]),
        ("", "slowdisk", &["+ waited for a disk"]),
        ("", "fsync", &["+ disk", "+ fsync"]),
        ("", "moredisk", &["+ disk", "+ pread64"]),
    ],
    &[
        ("", "neighbour", &["+ waited for a CPU: rival had it"]),
        ("rivals", "rivals-nice", &["+ waited for a CPU: rival had it"]),
        ("", "realtime", &["+ waited for a CPU: rival had it"]),
        ("rivals", "", &["- waited for a CPU: rival had it"]),
    ],
    &[
        ("", "affinity", &["+ waited for a CPU", "+ changed/pinned"]),
        ("", "faults", &["+ page fault"]),
        ("", "leak", &["+ memory"]),
    ],
];

/// The recordings of the kinds.
pub(crate) struct Recordings {
    pub(crate) folder: PathBuf,
    pub(crate) turns: std::ops::Range<usize>,
}

impl Recordings {
    /// Returns the files of a kind. Those without a change belong to a group of kinds, between
    /// whose recordings they are made.
    pub(crate) fn files(&self, kind: &str, group: usize) -> Vec<PathBuf> {
        let name = match kind {
            "" => format!("none-{group}"),
            kind => kind.to_owned(),
        };
        let file = |turn| self.folder.join(format!("{name}-{turn}"));
        self.turns.clone().map(file).collect()
    }

    fn read(&self, kind: &str, group: usize) -> Vec<Recording> {
        let read = |path: PathBuf| {
            let options = Options {
                tables: TABLES,
                ..Options::default()
            };
            let trace = Trace::open(&path, &options, |_| Continue::Yes).expect("a trace");
            Recording::new(&trace, None)
        };
        self.files(kind, group).into_iter().map(read).collect()
    }
}

/// Returns a change in words, with its direction and kind.
fn words(change: &Change) -> String {
    let sign = if change.difference() > 0.0 { '+' } else { '-' };
    let (text, kind) = (change.feature.text(), change.feature.kind.name());
    format!(
        "{sign}{kind} {text}, mostly {} ({})",
        change.mostly, change.via
    )
}

/// Returns true if a change is one that an expectation describes.
fn is(change: &Change, expected: &str) -> bool {
    let text = words(change);
    let (sign, rest) = expected.split_at(1);
    text.starts_with(sign) && rest.split(" & ").all(|part| text.contains(part.trim()))
}

/// Returns the rank of the true cause among all that changed, and that may have. Prints those that
/// precede it.
fn rank(comparison: &Comparison, expected: &[&str]) -> Option<usize> {
    let all = || comparison.changes.iter().chain(&comparison.possible);
    let is_expected = |change: &Change| expected.iter().any(|expected| is(change, expected));
    let rank = all().position(is_expected);
    if rank != Some(0) {
        for change in all().take(rank.map_or(5, |rank| rank + 1)) {
            println!(
                "    {:.3} {} p {:.1e} {:.0} {:.0}",
                change.size,
                words(change),
                change.p,
                change.before,
                change.after
            );
        }
    }
    rank
}

/// The numbers of kinds by the rank of their true cause.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) all: usize,
    pub(crate) first: usize,
    pub(crate) third: usize,
    certain: usize,
}

impl Counts {
    fn add(&mut self, comparison: &Comparison, expected: &[&str]) {
        let rank = rank(comparison, expected);
        self.all += 1;
        self.first += usize::from(rank == Some(0));
        self.third += usize::from(rank.is_some_and(|rank| rank < 3));
        self.certain += usize::from(rank.is_some_and(|rank| rank < comparison.changes.len()));
    }
}

/// Compares the recordings of each kind.
pub(crate) fn judge(recordings: &Recordings, is_usual: impl Fn(&str) -> bool) -> Counts {
    let (mut counts, mut singles) = (Counts::default(), Counts::default());
    let limits = Limits::default();
    for (group, kinds) in KINDS.iter().enumerate() {
        for (before, after, expected) in *kinds {
            if !is_usual(before) || !is_usual(after) {
                continue;
            }
            println!("{before} {after}: expected {expected:?}");
            let [before, after] = [before, after].map(|kind| recordings.read(kind, group));
            counts.add(&Comparison::new(&before, &after, &limits), expected);
            println!("  one each");
            for (before, after) in before.chunks(1).zip(after.chunks(1)) {
                singles.add(&Comparison::new(before, after, &limits), expected);
            }
        }
    }
    println!("sets: {counts:?}\none recording each: {singles:?}");
    counts
}

/// Counts the comparisons of the same in which something changed.
pub(crate) fn judge_same(recordings: &Recordings) {
    let groups = 0..KINDS.len();
    let all: Vec<Vec<Recording>> = groups.map(|group| recordings.read("", group)).collect();
    let (mut sets, mut singles) = ([0, 0], [0, 0]);
    let changed = |before: &[Recording], after: &[Recording], counts: &mut [usize; 2]| {
        let comparison = Comparison::new(before, after, &Limits::default());
        for change in comparison.changes.iter().chain(&comparison.effects) {
            println!(
                "  {}: {:.0} {:.0}",
                words(change),
                change.before,
                change.after
            );
        }
        counts[0] += usize::from(!comparison.is_empty());
        counts[1] += 1;
    };
    for (at, before) in all.iter().enumerate() {
        for after in &all[at + 1..] {
            changed(before, after, &mut sets);
            for (before, after) in before.chunks(1).zip(after.chunks(1)) {
                changed(before, after, &mut singles);
            }
        }
    }
    println!("changes of the same: sets {sets:?}, one recording each {singles:?}");
}
