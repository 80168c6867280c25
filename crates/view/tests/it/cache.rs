//! Traces that are opened from their index.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use ferretto_tables::{Continue, Options};
use ferretto_testing::Random;
use ferretto_view::{Cache, Circumstances, Export, SearchIn, View, Window};
use tempfile::TempDir;

use crate::common::{SCHED, counter, slice};

/// A folder with a trace and a cache.
struct World {
    folder: TempDir,
    cache: Cache,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let cache = Cache::new(folder.path().join("cache/view")).with_least(0);
        Self { folder, cache }
    }

    fn trace(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("trace");
        path
    }

    /// Opens a trace, and writes its index if there is none. Returns true if there was one.
    fn open(&self, path: &Path) -> (View, bool) {
        let options = Options {
            threads: 1,
            ..Options::default()
        };
        let opened = self.cache.open(path, &options, |_| Continue::Yes);
        let (view, index) = opened.expect("trace");
        if let Some(index) = &index {
            index.write(&view).expect("index");
        }
        (view, index.is_none())
    }

    fn indexes(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join("cache/view");
        let entries = fs::read_dir(folder).expect("folder");
        entries.map(|entry| entry.expect("entry").path()).collect()
    }
}

/// Returns slices at several depths, and values of counters, enough for levels of detail.
fn events(seed: u64) -> String {
    events_of(seed, 3000)
}

fn events_of(seed: u64, count: u64) -> String {
    let mut events = String::new();
    for n in 0..count {
        let (at, tid) = (n * 40 + seed, n as u32 % 3 + 1);
        events += &slice(tid, &format!("outer {}", n % 5), at, 30);
        events += &slice(tid, "inner", at + 5, n % 20 + 1);
        events += &counter("queue", at, (n * 7 % 100) as f64);
    }
    format!("{{\"traceEvents\":[{}]}}", events.trim_end_matches(','))
}

/// Returns all that the page can show of a trace.
fn answers(view: &View) -> Vec<Vec<u8>> {
    let mut answers = vec![view.index(Circumstances::default())];
    let length = view.duration() as f64;
    let nodes: Vec<u32> = (0..view.nodes() as u32).collect();
    for level in [0, 8, 16, 24] {
        let window = Window {
            from: 0.0,
            to: length + 1.0,
            level,
        };
        answers.push(view.tiles(&nodes, window));
    }
    answers.push(view.summary(0.0, length, None).to_string().into());
    for searched in [SearchIn::Names, SearchIn::Args] {
        answers.push(view.search("in", searched, 100).expect("matches"));
    }
    for node in nodes {
        for id in [0, 1, 700] {
            let details = view.details(node, id);
            answers.push(details.map_or(Vec::new(), |details| details.to_string().into()));
        }
    }
    let mut page = Vec::new();
    let export = Export::new(view, u64::MAX, 1).expect("export");
    export.write(&mut page).expect("page");
    answers.push(page);
    answers
}

fn assert_same(view: &View, other: &View) {
    for (table, same) in view
        .trace()
        .tables()
        .all()
        .zip(other.trace().tables().all())
    {
        let name = table.spec().name;
        assert_eq!(table.rows(), same.rows(), "{name}");
        for (index, column) in table.spec().columns.iter().enumerate() {
            let (values, others) = (table.column(index), same.column(index));
            let (values, others) = (values.expect("column"), others.expect("column"));
            for row in 0..table.rows() {
                let (value, other) = (values.get(row), others.get(row));
                assert_eq!(value, other, "{name}.{} {row}", column.name);
            }
        }
    }
    let (strings, others) = (view.trace().strings(), other.trace().strings());
    assert!(strings.iter().eq(others.iter()));
    assert_eq!(strings.find("inner"), others.find("inner"));
    assert_eq!(view.trace().health(), other.trace().health());
    assert_eq!(view.trace().losses(), other.trace().losses());
    assert!(answers(view) == answers(other), "the page shows the same");
}

#[test]
fn a_trace_is_the_same_from_its_index() {
    let world = World::new();
    for (name, content) in [("slices", events(1)), ("sched", SCHED.to_owned())] {
        let path = world.trace(name, &content);
        let (imported, was_there) = world.open(&path);
        assert!(!was_there, "{name}");
        let (indexed, was_there) = world.open(&path);
        assert!(was_there, "{name}");
        assert_same(&imported, &indexed);
    }
}

/// Returns switches of two CPUs between threads of several processes, in bursts, with names and
/// values of a counter.
fn switches(count: u64) -> String {
    let mut random = Random(5);
    let mut text = String::from("# tracer: nop\n");
    let (mut at, mut running) = (1_000_000_000_u64, [0; 2]);
    for _ in 0..count {
        at += match random.below(50) {
            0 => random.below(5_000_000) as u64,
            _ => random.below(20_000) as u64,
        } + 1;
        let (seconds, micros) = (at / 1_000_000_000, at / 1000 % 1_000_000);
        let cpu = random.below(2);
        let (before, next) = (running[cpu], random.below(8));
        running[cpu] = next;
        let name = |pid: usize| match pid {
            0 => "swapper/0".to_owned(),
            pid => format!("task{pid}"),
        };
        text += &format!(
            "{}-{before} [00{cpu}] d..2 {seconds}.{micros:06}: sched_switch: prev_comm={} prev_pid={before} \
             prev_prio=120 prev_state=S ==> next_comm={} next_pid={next} next_prio=120\n",
            name(before),
            name(before),
            name(next),
        );
        if random.below(4) == 0 {
            text += &format!(
                "{}-{next} [00{cpu}] d..2 {seconds}.{micros:06}: cpu_frequency: state={} cpu_id={cpu}\n",
                name(next),
                random.below(3000),
            );
        }
    }
    text
}

#[test]
fn pictures_of_all_windows_are_the_same_from_an_index() {
    let world = World::new();
    let mut random = Random(8);
    for (name, content) in [("slices", events(3)), ("sched", switches(12_000))] {
        let path = world.trace(name, &content);
        let (imported, _) = world.open(&path);
        let length = imported.duration() as f64;
        let nodes: Vec<u32> = (0..imported.nodes() as u32).collect();
        for round in 0..32 {
            // Each picture is the first one of its index.
            let (indexed, was_there) = world.open(&path);
            assert!(was_there, "{name}");
            let share = 1.0 / f64::from(1 << random.below(12));
            let from = (length * (1.0 - share) * (random.below(1000) as f64 / 1000.0)).floor();
            let window = Window {
                from,
                to: if round % 8 == 0 {
                    length + 1.0
                } else {
                    (from + length * share).ceil()
                },
                level: random.below(30) as u8,
            };
            let pictures = [&imported, &indexed].map(|view| view.tiles(&nodes, window));
            assert!(pictures[0] == pictures[1], "{name}: {window:?}");
        }
    }
}

#[test]
fn the_nodes_of_an_indexed_trace_need_no_rows() {
    let world = World::new();
    let path = world.trace("slices", &events(1));
    world.open(&path);
    let (indexed, _) = world.open(&path);
    let before = indexed.memory();
    indexed.index(Circumstances::default());
    let more = indexed.memory() - before;
    assert!(more < 1024, "no levels of detail are read: {more} bytes");
    let window = Window {
        from: 0.0,
        to: 1e9,
        level: 0,
    };
    let nodes: Vec<u32> = (0..indexed.nodes() as u32).collect();
    indexed.tiles(&nodes, window);
    assert!(
        indexed.memory() > before + 1024,
        "events are read when they are shown"
    );
}

#[test]
fn an_index_of_another_content_is_not_used() {
    let world = World::new();
    let path = world.trace("trace", &events(1));
    let modified = File::open(&path).and_then(|file| file.metadata()?.modified());
    world.open(&path);
    // The size and the time that users can set are the same.
    let path = world.trace("trace", &events(2));
    let file = File::options().write(true).open(&path).expect("trace");
    file.set_modified(modified.expect("time")).expect("time");
    let (view, was_there) = world.open(&path);
    assert!(!was_there);
    let whole = View::open(&path, &Options::default(), |_| Continue::Yes).expect("trace");
    assert_same(&whole, &view);
}

#[test]
fn a_damaged_index_is_not_used() {
    let world = World::new();
    let path = world.trace("trace", SCHED);
    let (imported, _) = world.open(&path);
    let expected = answers(&imported);
    let index = world.indexes().pop().expect("index");
    let whole = fs::read(&index).expect("index");
    let mut damaged: Vec<Vec<u8>> = (0..whole.len())
        .step_by(whole.len() / 40)
        .map(|length| whole[..length].to_vec())
        .collect();
    damaged.push([whole.clone(), vec![0]].concat());
    for at in whole.len() - 24..whole.len() {
        damaged.push(changed(&whole, at));
    }
    for content in damaged {
        fs::write(&index, content).expect("index");
        let (_, was_there) = world.open(&path);
        assert!(!was_there);
        // It is replaced.
        assert!(fs::read(&index).expect("index").len() > whole.len() / 2);
    }
    // Damaged data is found when the index is opened, or by the first answer that needs it.
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        fs::write(&index, changed(&whole, at)).expect("index");
        let (view, _) = world.open(&path);
        match view.intact(|| answers(&view)) {
            Ok(answered) => assert!(answered == expected, "{at}"),
            Err(damaged) => {
                let view = damaged.import_again().expect("trace");
                assert!(answers(&view) == expected, "{at}");
                assert_eq!(world.indexes().len(), 0, "the damaged one is gone");
            }
        }
    }
}

/// Returns a content with another byte at an offset.
fn changed(content: &[u8], at: usize) -> Vec<u8> {
    let mut changed = content.to_vec();
    changed[at] ^= 0x10;
    changed
}

#[test]
fn the_first_page_and_its_picture_read_a_small_part_of_the_index() {
    const PAGE: usize = 16 << 10;
    let world = World::new();
    let path = world.trace("trace", &events_of(1, 20_000));
    world.open(&path);
    let index = world.indexes().pop().expect("index");
    let whole = fs::read(&index).expect("index");
    let mut unread = 0;
    let pages: Vec<usize> = (0..whole.len()).step_by(4 * PAGE).collect();
    for at in &pages {
        fs::write(&index, changed(&whole, *at)).expect("index");
        let opened = world
            .cache
            .open(&path, &Options::default(), |_| Continue::Yes);
        let (view, new) = opened.expect("trace");
        let length = view.duration() as f64;
        let nodes: Vec<u32> = (0..view.nodes() as u32).collect();
        let picture = Window {
            from: 0.0,
            to: length + 1.0,
            level: (length / 256.0).log2() as u8,
        };
        let first = || {
            view.index(Circumstances::default());
            view.tiles(&nodes, picture);
        };
        unread += usize::from(new.is_none() && view.intact(first).is_ok());
    }
    assert!(unread * 4 >= pages.len() * 3, "{unread} of {pages:?}");
}

#[test]
fn an_index_that_is_replaced_can_be_read_on() {
    let world = World::new();
    let path = world.trace("trace", &events(1));
    let (imported, _) = world.open(&path);
    let expected = answers(&imported);
    let (first, was_there) = world.open(&path);
    assert!(was_there);
    // Another server opens what the file contains now.
    world.trace("trace", &events(2));
    let (second, was_there) = world.open(&path);
    assert!(!was_there);
    assert!(
        first
            .intact(|| answers(&first))
            .is_ok_and(|read| read == expected)
    );
    assert!(answers(&second) != expected);
}

#[test]
fn an_index_that_others_may_have_planted_is_not_used() {
    let world = World::new();
    let path = world.trace("trace", SCHED);
    world.open(&path);
    let index = world.indexes().pop().expect("index");
    assert!(world.open(&path).1);
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    assert_eq!(
        fs::metadata(&index).expect("index").permissions().mode() & 0o777,
        0o600
    );
    mode(&index, 0o666).expect("mode");
    assert!(!world.open(&path).1);
    let folder = index.parent().expect("folder");
    assert_eq!(
        fs::metadata(folder).expect("folder").permissions().mode() & 0o777,
        0o700
    );
    assert!(world.open(&path).1);
    // A link.
    let elsewhere = world.folder.path().join("elsewhere");
    fs::rename(&index, &elsewhere).expect("index");
    symlink(&elsewhere, &index).expect("link");
    assert!(!world.open(&path).1);
    // A folder in which others may create files.
    mode(folder, 0o777).expect("mode");
    let opened = world
        .cache
        .open(&path, &Options::default(), |_| Continue::Yes);
    let (view, new) = opened.expect("trace");
    assert!(new.expect("no index").write(&view).is_err());
}

#[test]
fn the_size_of_all_indexes_is_limited() {
    let world = World::new();
    let paths: Vec<PathBuf> = (0..4)
        .map(|n| world.trace(&format!("trace {n}"), SCHED))
        .collect();
    world.open(&paths[0]);
    let size = fs::metadata(&world.indexes()[0]).expect("index").len();
    let world = World {
        cache: world.cache.clone().with_largest(3 * size + size / 2),
        ..world
    };
    for path in &paths {
        world.open(path);
    }
    assert_eq!(world.indexes().len(), 3);
    assert!(world.open(&paths[3]).1);
    // Nothing that is too large alone is written.
    let world = World {
        cache: world.cache.clone().with_largest(1),
        ..world
    };
    let large = world.trace("large", &events(1));
    let opened = world
        .cache
        .open(&large, &Options::default(), |_| Continue::Yes);
    let (view, new) = opened.expect("trace");
    let refused = new.expect("no index").write(&view).unwrap_err();
    assert!(
        refused.to_string().contains("the 1 byte allowed in"),
        "{refused}"
    );
    assert_eq!(world.indexes().len(), 3);
    // A folder that would be empty is not created.
    let folder = world.folder.path().join("none");
    let cache = Cache::new(folder.join("view")).with_least(0);
    let opened = cache
        .with_largest(1)
        .open(&large, &Options::default(), |_| Continue::Yes);
    let (view, new) = opened.expect("trace");
    new.expect("no index").write(&view).unwrap_err();
    assert!(!folder.exists());
}
