//! The cost of profiling compared with other profilers. Set the number of rounds to measure it:
//!
//! ```sh
//! FERRETTO_HEAP_COST=7 cargo test -p ferretto-heapprofd --test heap cost -- --nocapture
//! ```
//!
//! In each round each program runs in each way once, and the least of all rounds counts. Python,
//! SQLite, heaptrack, jemalloc and valgrind, which counts instructions, are tried if they are
//! installed, and upstream's client if `FERRETTO_UPSTREAM` names a folder with it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ferretto_client::Consumer;
use ferretto_proto::HeapprofdConfig;

use crate::world::{World, compiled, every};

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
/// The timeout of a run in seconds.
const LIMIT: &str = "60";

/// A Python program that allocates objects and strings, and sorts.
const PYTHON: &str = "import json,sys
rows=[{'id':i,'name':'row %d'%i,'values':list(range(i%20))} for i in range(int(sys.argv[1]))]
for _ in range(3): rows=json.loads(json.dumps(rows)); rows.sort(key=lambda r:(-len(r['values']),r['name']))
print(0)";

/// The sizes of a short run, for counting instructions, and of the usual run.
const ROWS: [&str; 2] = ["3000", "30000"];

const SQL: &str = "create table t(a integer primary key,b text,c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<100000)
insert into t select i,'name '||i,i*0.5 from n;
create index tb on t(b); select count(*),sum(c) from t where b like 'name 9%';
select length(group_concat(a)) from t;";

/// The measurements of a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Programs as they are.
    Usual,
    /// Each allocation is recorded.
    Each,
    /// As before, and programs are run as well.
    Both,
}

/// A setup for running programs: a command prefix and environment variables.
struct Way {
    name: String,
    kind: Kind,
    words: Vec<String>,
    variables: Vec<String>,
    counts: bool,
    _recording: Option<Consumer>,
}

/// The smallest measured values of a program.
#[derive(Clone, Copy)]
struct Best([f64; 4]);

impl Best {
    const NONE: Self = Self([f64::INFINITY; 4]);

    fn add(&mut self, run: Option<[f64; 4]>) {
        for (best, new) in self.0.iter_mut().zip(run.into_iter().flatten()) {
            *best = best.min(new);
        }
    }

    /// Returns the CPU time in nanoseconds.
    fn cpu_ns(self) -> f64 {
        self.0[0]
    }

    fn ns(self) -> f64 {
        self.0[1]
    }

    fn seconds(self) -> f64 {
        self.0[2]
    }

    fn mib(self) -> f64 {
        self.0[3] / 1024.0
    }
}

impl Way {
    fn new(name: impl Into<String>, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter();
        Self {
            name: name.into(),
            kind: Kind::Usual,
            words: Vec::new(),
            variables: variables
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            counts: true,
            _recording: None,
        }
    }

    /// Runs a program once. Returns its output, CPU seconds and KiB.
    fn run(&self, cost: &str, words: &[&str]) -> Option<[f64; 4]> {
        let mut command = Command::new(cost);
        command.args(["run", LIMIT]).args(&self.variables);
        command.arg("--").args(&self.words).args(words);
        let output = command.stdin(Stdio::null()).output().ok()?;
        if !output.status.success() {
            return None;
        }
        let numbers = |text: &[u8]| -> Vec<f64> {
            let text = String::from_utf8_lossy(text);
            // Heaptrack prints more lines.
            let line = |line: &str| -> Option<Vec<f64>> {
                let words = line.split_whitespace();
                words.map(|word| word.parse().ok()).collect()
            };
            let mut lines = text.lines().rev().filter_map(line);
            lines.find(|line| !line.is_empty()).unwrap_or_default()
        };
        let used = numbers(&output.stderr);
        let said = numbers(&output.stdout);
        let number = |at: usize| said.get(at).copied().unwrap_or(0.0);
        Some([number(0), number(1), *used.first()?, *used.get(1)?])
    }

    /// Counts instructions with valgrind.
    fn instructions(&self, words: &[&str]) -> Option<f64> {
        if !self.counts {
            return None;
        }
        let out = tempfile::NamedTempFile::new().ok()?;
        let variables = self.variables.iter();
        let status = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", out.path().display()))
            .args(words)
            .envs(variables.filter_map(|variable| variable.split_once('=')))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.ok()?.success() {
            return None;
        }
        let text = std::fs::read_to_string(out.path()).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
        line.trim().parse().ok()
    }
}

fn recorded(world: &World, name: &str, config: &HeapprofdConfig) -> Way {
    let library = world.library().display().to_string();
    let socket = world.socket().display().to_string();
    let variables = [
        ("LD_PRELOAD", &*library),
        ("FERRETTO_HEAP_SOCK_NAME", &socket),
    ];
    Way {
        _recording: Some(world.begin(config)),
        ..Way::new(name, &variables)
    }
}

/// Returns the setups of our client: without a profiler, with another recording, and recorded.
fn own_ways(worlds: &mut Vec<World>) -> Vec<Way> {
    let world = World::new();
    let library = world.library().display().to_string();
    let without = [
        ("LD_PRELOAD", &*library),
        ("FERRETTO_HEAP_SOCK_NAME", "/nowhere"),
    ];
    let mut ways = vec![Way::new("the client, no profiler", &without)];
    worlds.push(world);
    let other = HeapprofdConfig {
        all: None,
        pid: vec![1],
        ..every(1)
    };
    let sampled = |bytes, ring| HeapprofdConfig {
        shmem_size_bytes: Some(ring),
        ..every(bytes)
    };
    let configs = [
        ("the client, something else is recorded", other, Kind::Usual),
        // The settings of `ferretto record --heap`.
        ("each 512 KiB", sampled(512 << 10, 2 << 20), Kind::Usual),
        ("each 4 KiB", sampled(4096, 8 << 20), Kind::Usual),
        ("each allocation", sampled(1, 8 << 20), Kind::Each),
    ];
    for (name, config, kind) in configs {
        let world = World::new();
        ways.push(Way {
            kind,
            ..recorded(&world, name, &config)
        });
        worlds.push(world);
    }
    ways
}

fn upstreams_ways(worlds: &mut Vec<World>) -> Vec<Way> {
    let upstream = std::env::var_os("FERRETTO_UPSTREAM").map(PathBuf::from);
    let upstream = upstream.map(|folder| folder.join("libheapprofd_glibc_preload.so"));
    let Some(library) = upstream.filter(|library| library.exists()) else {
        println!(
            "skipped: FERRETTO_UPSTREAM does not name a folder with libheapprofd_glibc_preload.so"
        );
        return Vec::new();
    };
    let kinds = [
        ("upstream's client, each 512 KiB", 512 << 10, Kind::Usual),
        ("upstream's client, each 4 KiB", 4096, Kind::Usual),
        ("upstream's client, each allocation", 1, Kind::Each),
    ];
    let mut ways = Vec::new();
    for (name, bytes, kind) in kinds {
        let mut world = World::new();
        // Only upstream's profilers, each of which begins before its program does.
        world.stop_profiler();
        let socket = world.folder.path().join("producer.sock");
        let variables = [
            ("LD_PRELOAD", &*library.display().to_string()),
            ("PERFETTO_HEAPPROFD_BLOCKING_INIT", "1"),
            ("PERFETTO_PRODUCER_SOCK_NAME", &socket.display().to_string()),
        ];
        ways.push(Way {
            kind,
            counts: false,
            _recording: Some(world.begin(&every(bytes))),
            ..Way::new(name, &variables)
        });
        worlds.push(world);
    }
    ways
}

fn others_ways(worlds: &[World]) -> Vec<Way> {
    let mut ways = Vec::new();
    if std::fs::exists(JEMALLOC).unwrap_or(false) {
        ways.push(Way::new("jemalloc", &[("LD_PRELOAD", JEMALLOC)]));
        for (bits, name, kind) in [
            (19, "jemalloc's profiler, each 512 KiB", Kind::Usual),
            (12, "jemalloc's profiler, each 4 KiB", Kind::Usual),
            (0, "jemalloc's profiler, each allocation", Kind::Each),
        ] {
            let options = format!("prof:true,prof_active:true,lg_prof_sample:{bits}");
            let variables = [("LD_PRELOAD", JEMALLOC), ("MALLOC_CONF", &options)];
            ways.push(Way {
                kind,
                ..Way::new(name, &variables)
            });
        }
    } else {
        println!("skipped: {JEMALLOC} is not installed");
    }
    if Command::new("heaptrack").arg("--version").output().is_ok() {
        let to = worlds[0].folder.path().join("heaptrack");
        let to = to.display().to_string();
        let words = ["heaptrack", "-r", "-o", &to].map(str::to_owned).to_vec();
        ways.push(Way {
            words,
            kind: Kind::Both,
            counts: false,
            ..Way::new("heaptrack, each allocation", &[])
        });
    } else {
        println!("skipped: heaptrack is not installed");
    }
    ways
}

/// The programs.
const PAIRS: usize = 0;
const KEEP: usize = 1;
const PYTHONS: usize = 2;
const SQLITE: usize = 3;

/// The programs of a round, by their words.
fn programs<'a>(cost: &'a str, kind: Kind) -> [Option<Vec<&'a str>>; 4] {
    let real = |words: Vec<&'a str>| (kind != Kind::Each).then_some(words);
    let counts = match kind {
        Kind::Usual => "5000000",
        Kind::Each | Kind::Both => "20000",
    };
    [
        Some(vec![cost, "pairs", counts]),
        Some(vec![cost, "keep", "20000"]),
        real(vec!["/usr/bin/python3", "-c", PYTHON, ROWS[1]]),
        real(vec!["/usr/bin/sqlite3", ":memory:", SQL]),
    ]
}

#[test]
fn cost() {
    let rounds = std::env::var("FERRETTO_HEAP_COST").ok();
    let Some(rounds) = rounds.and_then(|rounds| rounds.parse::<u32>().ok()) else {
        println!("skipped: a measurement; FERRETTO_HEAP_COST=7 enables it, in 7 rounds");
        return;
    };
    let Some(program) = compiled("heap-cost", "cost.c", &["-O2", "-fno-builtin", "-w"]) else {
        println!("skipped: no C compiler is installed");
        return;
    };
    let program = program.display().to_string();
    let mut worlds = Vec::new();
    let mut ways = vec![Way::new("plain", &[])];
    ways.extend(own_ways(&mut worlds));
    ways.extend(upstreams_ways(&mut worlds));
    ways.extend(others_ways(&worlds));
    let mut best = vec![[Best::NONE; 4]; ways.len()];
    for round in 0..rounds {
        for (way, best) in ways.iter().zip(&mut best) {
            for (words, best) in programs(&program, way.kind).into_iter().zip(best) {
                best.add(words.and_then(|words| way.run(&program, &words)));
            }
        }
        println!("round {} of {rounds}", round + 1);
    }
    let instructions: Vec<_> = ways.iter().map(|way| counted(way, &program)).collect();
    show(&ways, &best, &instructions);
    judge(&ways, &best, &instructions);
}

/// Instructions of a pair, and those of Python and SQLite.
type Instructions = [Option<f64>; 3];

fn counted(way: &Way, program: &str) -> Instructions {
    if way.kind != Kind::Usual {
        return [None; 3];
    }
    // The difference of two runs excludes the start of the program.
    let pairs = |count: &str| way.instructions(&[program, "pairs", count]);
    let pair = pairs("220000").zip(pairs("20000"));
    let real = |words: &[&str]| {
        if way.name.contains("jemalloc") {
            None
        } else {
            way.instructions(words)
        }
    };
    [
        pair.map(|(more, few)| (more - few) / 202_000.0),
        real(&["/usr/bin/python3", "-c", PYTHON, ROWS[0]]),
        real(&["/usr/bin/sqlite3", ":memory:", SQL]),
    ]
}

fn number(number: f64, digits: usize) -> String {
    if number.is_finite() {
        format!("{number:.digits$}")
    } else {
        String::new()
    }
}

fn show(ways: &[Way], best: &[[Best; 4]], instructions: &[Instructions]) {
    println!("\n| | ns | instr. | Python, s | 10⁶ instr. | MiB | SQLite, s | 10⁶ instr. | MiB |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let rows = || ways.iter().zip(best).zip(instructions);
    for ((way, best), [pair, python, sqlite]) in rows().filter(|row| row.0.0.kind != Kind::Each) {
        let of = |count: &Option<f64>, by: f64| number(count.unwrap_or(f64::NAN) / by, 1);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            way.name,
            number(best[PAIRS].cpu_ns(), 1),
            of(pair, 1.0),
            number(best[PYTHONS].seconds(), 3),
            of(python, 1e6),
            number(best[PYTHONS].mib(), 1),
            number(best[SQLITE].seconds(), 3),
            of(sqlite, 1e6),
            number(best[SQLITE].mib(), 1),
        );
    }
    println!("\n| | pair, ns of CPU time | ns | never freed, ns of CPU time | ns |");
    println!("|---|---:|---:|---:|---:|");
    for ((way, best), _) in
        rows().filter(|row| row.0.0.kind != Kind::Usual || row.0.0.name == "plain")
    {
        let (pair, kept) = (best[PAIRS], best[KEEP]);
        println!(
            "| {} | {} | {} | {} | {} |",
            way.name,
            number(pair.cpu_ns(), 0),
            number(pair.ns(), 0),
            number(kept.cpu_ns(), 0),
            number(kept.ns(), 0)
        );
    }
    println!();
}

/// Prints the promised limits, and whether they are kept.
fn judge(ways: &[Way], best: &[[Best; 4]], instructions: &[Instructions]) {
    let index_of = |name: &str| ways.iter().position(|way| way.name == name);
    let at = |name| index_of(name).expect("there is one");
    let (plain, idle, rare) = (
        at("plain"),
        at("the client, no profiler"),
        at("each 512 KiB"),
    );
    let added = |way: usize| best[way][PAIRS].cpu_ns() - best[plain][PAIRS].cpu_ns();
    let say = |what: String, is_kept: bool| {
        println!("{what}: {}", if is_kept { "kept" } else { "MISSED" });
    };
    let (call, pair) = (added(idle) / 2.0, added(rare));
    say(
        format!("{call:.1} ns a call without a profiler, 2 promised"),
        call <= 2.0,
    );
    say(
        format!("{pair:.1} ns a pair at 512 KiB, 10 promised"),
        pair <= 10.0,
    );
    for (program, name, count) in [(PYTHONS, "Python", 1), (SQLITE, "SQLite", 2)] {
        let (old, new) = (best[plain][program], best[rare][program]);
        let percent = (new.seconds() / old.seconds() - 1.0) * 100.0;
        say(
            format!("{name} at 512 KiB takes {percent:+.1} % CPU time, 1 promised"),
            percent <= 1.0,
        );
        if let (Some(old), Some(new)) = (instructions[plain][count], instructions[rare][count]) {
            let percent = (new / old - 1.0) * 100.0;
            say(
                format!("{name} at 512 KiB takes {percent:+.2} % instructions, 1 promised"),
                percent <= 1.0,
            );
        }
        let mib = new.mib() - old.mib();
        say(
            format!("{name} at 512 KiB takes {mib:+.1} MiB, 8 promised"),
            mib <= 8.0,
        );
    }
}
