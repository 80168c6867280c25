//! The cost of being recorded, beside other profilers. Nothing is measured unless asked for:
//!
//! ```sh
//! FERRETTO_HEAP_COST=1 cargo test -p ferretto-heapprofd --test heap cost -- --nocapture
//! ```
//!
//! It takes Python and valgrind, which counts instructions; `FERRETTO_HEAP_COST=all` counts those
//! of Python and SQLite, too, which takes many minutes. Heaptrack and jemalloc are tried if they
//! are installed, upstream's client if `FERRETTO_UPSTREAM` names a folder with it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ferretto_client::Consumer;
use ferretto_proto::HeapprofdConfig;

use crate::world::{World, compiled, every};

/// Runs of which the best counts.
const RUNS: usize = 5;
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// Runs a program: what it says, then its CPU seconds and its largest memory in KiB.
const TIMED: &str = "import subprocess,sys,resource as r
env=dict(a.split('=',1) for a in sys.argv[1].split('\\n') if a)
import os
p=subprocess.run(sys.argv[2:],env={**os.environ,**env},stdout=subprocess.PIPE,stderr=subprocess.DEVNULL)
u=r.getrusage(r.RUSAGE_CHILDREN)
print(p.stdout.decode().strip().split('\\n')[-1],u.ru_utime+u.ru_stime,u.ru_maxrss)";

/// A program of Python: objects, texts, sorting.
const PYTHON: &str = "import json
rows=[{'id':i,'name':'row %d'%i,'values':list(range(i%20))} for i in range(30000)]
for _ in range(3): rows=json.loads(json.dumps(rows)); rows.sort(key=lambda r:(-len(r['values']),r['name']))
print(0)";

const SQL: &str = "create table t(a integer primary key,b text,c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<100000)
insert into t select i,'name '||i,i*0.5 from n;
create index tb on t(b); select count(*),sum(c) from t where b like 'name 9%';
select length(group_concat(a)) from t;";

/// A way to run programs: words before theirs, and variables.
struct Way {
    name: String,
    words: Vec<String>,
    variables: Vec<(&'static str, String)>,
    _recording: Option<Consumer>,
}

impl Way {
    fn new(name: impl Into<String>, variables: &[(&'static str, String)]) -> Self {
        Self {
            name: name.into(),
            words: Vec::new(),
            variables: variables.to_vec(),
            _recording: None,
        }
    }

    fn command(&self, words: &[&str]) -> Vec<String> {
        let before = self.words.iter().cloned();
        before
            .chain(words.iter().map(|&word| word.to_owned()))
            .collect()
    }

    /// The last line, CPU seconds and MiB of the best run.
    fn timed(&self, words: &[&str]) -> Option<(f64, f64, f64)> {
        let variables = self.variables.iter();
        let variables: Vec<String> = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut best: Option<(f64, f64, f64)> = None;
        for _ in 0..RUNS {
            let mut command = Command::new("python3");
            command.args(["-c", TIMED, &variables.join("\n")]);
            let output = command.args(self.command(words)).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            let numbers: Vec<f64> = text
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            let [said, seconds, kib] = numbers[..] else {
                return None;
            };
            let run = (said, seconds, kib / 1024.0);
            let better =
                |best: (f64, f64, f64)| (best.0.min(run.0), best.1.min(run.1), best.2.min(run.2));
            best = Some(best.map_or(run, better));
        }
        best
    }

    /// Instructions in millions, by valgrind.
    fn instructions(&self, words: &[&str]) -> Option<f64> {
        if !self.words.is_empty() {
            return None;
        }
        let out = tempfile::NamedTempFile::new().ok()?;
        let status = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", out.path().display()))
            .args(words)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.ok()?.success() {
            return None;
        }
        let text = std::fs::read_to_string(out.path()).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
        Some(line.trim().parse::<f64>().ok()? / 1e6)
    }
}

fn recorded(world: &World, name: &str, config: &HeapprofdConfig) -> Way {
    let variables = [
        ("LD_PRELOAD", world.library().display().to_string()),
        (
            "FERRETTO_HEAP_SOCK_NAME",
            world.socket().display().to_string(),
        ),
    ];
    Way {
        _recording: Some(world.begin(config)),
        ..Way::new(name, &variables)
    }
}

fn ways(worlds: &mut Vec<World>) -> Vec<Way> {
    let world = World::new();
    let library = world.library().display().to_string();
    let mut ways = vec![
        Way::new("plain", &[]),
        Way::new(
            "client, no profiler",
            &[
                ("LD_PRELOAD", library),
                ("FERRETTO_HEAP_SOCK_NAME", "/nowhere".into()),
            ],
        ),
    ];
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
        ("client, not recorded", other),
        // As `ferretto record --heap` has them.
        ("every 512 KiB", sampled(512 << 10, 2 << 20)),
        ("every 4 KiB", sampled(4096, 8 << 20)),
        ("every byte", sampled(1, 8 << 20)),
    ];
    for (name, config) in configs {
        let world = World::new();
        ways.push(recorded(&world, name, &config));
        worlds.push(world);
    }
    let upstream = std::env::var_os("FERRETTO_UPSTREAM").map(PathBuf::from);
    let upstream = upstream.map(|folder| folder.join("libheapprofd_glibc_preload.so"));
    if let Some(library) = upstream.filter(|library| library.exists()) {
        for (name, bytes) in [
            ("upstream's, every 512 KiB", 512 << 10),
            ("upstream's, every 4 KiB", 4096),
        ] {
            let mut world = World::new();
            // Only upstream's profilers, each of which begins before its program does.
            world.stop_profiler();
            let variables = [
                ("LD_PRELOAD", library.display().to_string()),
                ("PERFETTO_HEAPPROFD_BLOCKING_INIT", "1".into()),
                (
                    "PERFETTO_PRODUCER_SOCK_NAME",
                    world
                        .folder
                        .path()
                        .join("producer.sock")
                        .display()
                        .to_string(),
                ),
            ];
            ways.push(Way {
                _recording: Some(world.begin(&every(bytes))),
                ..Way::new(name, &variables)
            });
            worlds.push(world);
        }
    }
    if std::fs::exists(JEMALLOC).unwrap_or(false) {
        ways.push(Way::new("jemalloc", &[("LD_PRELOAD", JEMALLOC.into())]));
        for bits in [19, 12] {
            let options = format!("prof:true,prof_active:true,lg_prof_sample:{bits}");
            let name = format!("jemalloc, every {} KiB", (1 << bits) >> 10);
            let variables = [("LD_PRELOAD", JEMALLOC.into()), ("MALLOC_CONF", options)];
            ways.push(Way::new(name, &variables));
        }
    }
    if Command::new("heaptrack").arg("--version").output().is_ok() {
        let to = worlds[0]
            .folder
            .path()
            .join("heaptrack")
            .display()
            .to_string();
        let words = ["heaptrack", "-r", "-o", &to].map(str::to_owned).to_vec();
        ways.push(Way {
            words,
            ..Way::new("heaptrack", &[])
        });
    }
    ways
}

#[test]
fn cost() {
    if std::env::var_os("FERRETTO_HEAP_COST").is_none() {
        println!("skipped: FERRETTO_HEAP_COST=1 measures what being recorded costs");
        return;
    }
    let Some(program) = compiled("heap-cost", "cost.c", &["-O2", "-fno-builtin"]) else {
        println!("skipped: there is no C compiler");
        return;
    };
    let program = program.display().to_string();
    let mut worlds = Vec::new();
    let ways = ways(&mut worlds);
    println!(
        "{:28} {:>9} {:>9}  {:>9} {:>9} {:>7}  {:>9} {:>9} {:>7}",
        "", "ns/pair", "instr.", "python s", "10^6 i.", "MiB", "sqlite s", "10^6 i.", "MiB"
    );
    for way in &ways {
        let is_slow = ["heaptrack", "every byte"].contains(&&*way.name);
        let count = if is_slow { "200000" } else { "5000000" };
        let pair = way.timed(&[&program, count]).map(|run| run.0);
        // The difference of two runs, so that the start of the program is left out.
        let million = |count: &str| way.instructions(&[&program, count]);
        let instructions = million("220000").zip(million("20000"));
        let instructions = instructions.map(|(more, few)| (more - few) * 1e6 / 202_000.0);
        let counts = std::env::var_os("FERRETTO_HEAP_COST").is_some_and(|what| what == "all");
        let real = |words: &[&str]| {
            let instructions = counts.then(|| way.instructions(words)).flatten();
            (way.timed(words), instructions)
        };
        let python = real(&["/usr/bin/python3", "-c", PYTHON]);
        let sqlite = real(&["/usr/bin/sqlite3", ":memory:", SQL]);
        let number = |number: Option<f64>, digits: usize| {
            number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
        };
        println!(
            "{:28} {:>9} {:>9}  {:>9} {:>9} {:>7}  {:>9} {:>9} {:>7}",
            way.name,
            number(pair, 1),
            number(instructions, 1),
            number(python.0.map(|run| run.1), 3),
            number(python.1, 1),
            number(python.0.map(|run| run.2), 1),
            number(sqlite.0.map(|run| run.1), 3),
            number(sqlite.1, 1),
            number(sqlite.0.map(|run| run.2), 1),
        );
    }
}
