//! The cost of recording callstacks, compared with `perf record --call-graph dwarf` and `perf
//! script` on the same program.
//!
//! `profiler [HZ] [ROUNDS]`: 999 samples per second and three rounds by default. Compiles a program
//! that spends known shares of its time in ten functions, fifty calls deep, records it with each
//! tool in turns, and prints a table. The table shows the round with the least CPU time per sample
//! of each tool, and the shares of functions over all rounds. `ferretto` is taken from the
//! directory of this program: `cargo build --profile dist -p ferretto-cli` creates it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};

type Error = Box<dyn std::error::Error>;

/// The functions in which the program spends its time, and their shares in per cent.
const PARTS: [(&str, u32); 10] = [
    ("part_a", 20),
    ("part_b", 16),
    ("part_c", 13),
    ("part_d", 11),
    ("part_e", 10),
    ("part_f", 8),
    ("part_g", 7),
    ("part_h", 6),
    ("part_i", 5),
    ("part_j", 4),
];

/// The program: functions that call each other in turns, with frames of different sizes, and leaf
/// functions that do the work. It writes its CPU time in microseconds, and that of each part in
/// nanoseconds.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#define KEPT __attribute__((noinline))
static volatile unsigned long sink;
typedef void (*work)(void);
KEPT void down(int depth, work end);
#define CALL(name, size) KEPT void name(int depth, work end) { volatile char bytes[size]; bytes[0] = depth; down(depth - 1, end); sink += bytes[0]; }
CALL(via_a, 24) CALL(via_b, 100) CALL(via_c, 40) CALL(via_d, 64)
KEPT void down(int depth, work end) {
  if (depth <= 0) { end(); sink++; return; }
  switch (depth % 4) {
    case 0: via_a(depth, end); break;
    case 1: via_b(depth, end); break;
    case 2: via_c(depth, end); break;
    default: via_d(depth, end);
  }
  sink++;
}
static unsigned long spent[10];
static unsigned long now(void) { struct timespec time; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); return time.tv_sec * 1000000000ul + time.tv_nsec; }
#define PART(name, number, share) KEPT void name(void) { unsigned long begin = now(); for (volatile long i = 0; i < share * 20000L; i++) sink += i; spent[number] += now() - begin; }
"#;

fn program() -> String {
    let part = |(number, (name, share)): (usize, (&str, u32))| {
        format!("PART({name}, {number}, {share})\n")
    };
    let parts: String = PARTS.into_iter().enumerate().map(part).collect();
    let calls = PARTS
        .map(|(name, _)| format!("down(22, {name}); "))
        .concat();
    let end = r#"
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("%ld\n", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  for (int i = 0; i < 10; i++) printf("%lu\n", spent[i]);
}
"#;
    format!(
        "{PROGRAM}{parts}int main(void) {{\n  for (int round = 0; round < 1200; round++) {{ {calls}}}{end}"
    )
}

/// A tool that records callstacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Ferretto,
    /// `perf` with this many bytes of each stack.
    Perf(u32),
}

impl Tool {
    fn name(self) -> String {
        match self {
            Self::Ferretto => "ferretto record --perf".to_owned(),
            Self::Perf(bytes) => format!("perf, {bytes} bytes of stack"),
        }
    }
}

/// The result of a recording.
struct Outcome {
    samples: u64,
    /// The number of samples whose callstack starts with `_start`.
    complete: u64,
    /// The number of frames in all callstacks.
    frames: u64,
    /// The CPU time of all processes except the program, while recording.
    recording: Duration,
    /// The CPU time of resolving names afterwards.
    reading: Duration,
    elapsed: Duration,
    bytes: u64,
    shares: Shares,
}

/// The number of occurrences of functions, in all rounds.
#[derive(Default)]
struct Shares {
    samples: u64,
    /// The number of samples with a function in their callstack.
    functions: BTreeMap<String, u64>,
    /// The nanoseconds in each of [`PARTS`], as measured by the program itself.
    measured: [u64; PARTS.len()],
}

impl Shares {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        for (name, samples) in other.functions {
            *self.functions.entry(name).or_default() += samples;
        }
        for (own, other) in self.measured.iter_mut().zip(other.measured) {
            *own += other;
        }
    }

    /// Returns the measured share of a part, in per cent.
    fn measured(&self, part: usize) -> f64 {
        let all: u64 = self.measured.iter().sum();
        100.0 * self.measured[part] as f64 / all.max(1) as f64
    }

    /// Returns the share of samples with a function, in per cent.
    fn of(&self, function: &str) -> f64 {
        let samples = self.functions.get(function).copied().unwrap_or(0);
        100.0 * samples as f64 / self.samples.max(1) as f64
    }
}

impl Outcome {
    fn cpu(&self) -> Duration {
        self.recording + self.reading
    }

    fn each(&self) -> f64 {
        self.cpu().as_secs_f64() / self.samples.max(1) as f64
    }

    fn add(&mut self, frames: &[&str], times: u64) {
        self.samples += times;
        self.shares.samples += times;
        self.frames += times * frames.len() as u64;
        if frames.first() == Some(&"_start") {
            self.complete += times;
        }
        let mut names = frames.to_vec();
        names.sort_unstable();
        names.dedup();
        for name in names {
            *self.shares.functions.entry(name.to_owned()).or_default() += times;
        }
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let hz: u32 = arguments.next().map_or(Ok(999), |text| text.parse())?;
    let rounds: u32 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let own = std::env::current_exe()?;
    let ferretto = own.with_file_name("ferretto");
    if !ferretto.exists() {
        println!(
            "skipped: there is no {}; cargo build --profile dist -p ferretto-cli makes it",
            ferretto.display()
        );
        return Ok(());
    }
    let mut tools = vec![Tool::Ferretto];
    match Command::new("perf").arg("version").output() {
        Ok(_) => tools.extend([Tool::Perf(8192), Tool::Perf(65_528)]),
        Err(error) => println!("perf is left out: {error}\n"),
    }
    let bench = Bench::new(ferretto, hz)?;
    let mut best: Vec<(Tool, Outcome)> = Vec::new();
    for _ in 0..rounds.max(1) {
        for &tool in &tools {
            let mut outcome = bench.run(tool)?;
            let Some((_, least)) = best.iter_mut().find(|(of, _)| *of == tool) else {
                best.push((tool, outcome));
                continue;
            };
            if outcome.each() < least.each() {
                std::mem::swap(&mut outcome, least);
                // // The shares accumulate over all rounds.
                std::mem::swap(&mut outcome.shares, &mut least.shares);
            }
            least.shares.add(outcome.shares);
        }
    }
    print_costs(&best);
    print_shares(&best);
    Ok(())
}

/// The program, and the directory of recordings.
struct Bench {
    folder: tempfile::TempDir,
    ferretto: PathBuf,
    program: PathBuf,
    hz: u32,
}

impl Bench {
    fn new(ferretto: PathBuf, hz: u32) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("program.c");
        fs::write(&source, program())?;
        let program = folder.path().join("program");
        let flags = [
            "-O1",
            "-g",
            "-fomit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-o",
        ];
        let status = Command::new("cc")
            .args(flags)
            .arg(&program)
            .arg(&source)
            .status()?;
        assert!(status.success(), "the program does not compile");
        Ok(Self {
            folder,
            ferretto,
            program,
            hz,
        })
    }

    fn run(&self, tool: Tool) -> Result<Outcome, Error> {
        match tool {
            Tool::Ferretto => self.ferretto(),
            Tool::Perf(bytes) => self.perf(bytes),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ferretto(&self) -> Result<Outcome, Error> {
        let trace = self.file("trace.pftrace");
        let mut record = Command::new(&self.ferretto);
        record.args(["record", "-q", &format!("--perf={}", self.hz), "-o"]);
        // // An empty cache, so that names are looked up every time.
        let cache = self.file("cache");
        let _ = fs::remove_dir_all(&cache);
        record.env("XDG_CACHE_HOME", cache);
        let mut outcome = self.record(&mut record, &trace)?;
        // // Names are already in the file.
        let output = Command::new(&self.ferretto)
            .arg("folded")
            .arg(&trace)
            .output()?;
        for line in String::from_utf8(output.stdout)?.lines() {
            let (stack, times) = line.rsplit_once(' ').ok_or("not a folded line")?;
            let frames: Vec<&str> = stack.split(';').skip(1).collect();
            outcome.add(&frames, times.parse()?);
        }
        Ok(outcome)
    }

    fn perf(&self, bytes: u32) -> Result<Outcome, Error> {
        let data = self.file("perf.data");
        let mut record = Command::new("perf");
        record.args([
            "record",
            "-q",
            "-N",
            "-e",
            "cpu-clock",
            "-F",
            &self.hz.to_string(),
        ]);
        record.args(["--call-graph", &format!("dwarf,{bytes}"), "-o"]);
        let mut outcome = self.record(&mut record, &data)?;
        let text = self.file("perf.txt");
        let before = children();
        let began = Instant::now();
        let mut script = Command::new("perf");
        script
            .args(["script", "--no-inline", "-F", "ip,sym", "-i"])
            .arg(&data);
        let status = script
            .stdout(fs::File::create(&text)?)
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(format!("perf script: {status}").into());
        }
        outcome.reading = children().saturating_sub(before);
        outcome.elapsed += began.elapsed();
        let text = fs::read(&text)?;
        let text = String::from_utf8_lossy(&text);
        for block in text.split("\n\n") {
            let line =
                |line| str::split_once(str::trim_start(line), ' ').map(|(_, name)| name.trim());
            let mut frames: Vec<&str> = block.lines().filter_map(line).collect();
            frames.reverse();
            if !frames.is_empty() {
                outcome.add(&frames, 1);
            }
        }
        Ok(outcome)
    }

    /// Runs the program under a recorder whose last argument so far takes a file.
    fn record(&self, recorder: &mut Command, file: &Path) -> Result<Outcome, Error> {
        let before = children();
        let began = Instant::now();
        let output = recorder
            .arg(file)
            .arg("--")
            .arg(&self.program)
            .stdin(Stdio::null())
            .output()?;
        let elapsed = began.elapsed();
        let all = children().saturating_sub(before);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(said).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let mut numbers = text.lines().map(str::parse);
        let own: u64 = numbers.next().ok_or("no time of the program")??;
        let mut shares = Shares::default();
        for (part, number) in shares.measured.iter_mut().zip(numbers) {
            *part = number?;
        }
        Ok(Outcome {
            samples: 0,
            complete: 0,
            frames: 0,
            recording: all.saturating_sub(Duration::from_micros(own)),
            reading: Duration::ZERO,
            elapsed,
            bytes: fs::metadata(file)?.len(),
            shares,
        })
    }
}

/// Returns the CPU time of all child processes that have been waited for, and of their descendants.
fn children() -> Duration {
    let time = |usage: &Usage| {
        let both = usage.user_time() + usage.system_time();
        Duration::from_micros(
            u64::try_from(nix::sys::time::TimeValLike::num_microseconds(&both)).unwrap_or(0),
        )
    };
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| time(&usage))
}

fn print_costs(best: &[(Tool, Outcome)]) {
    println!(
        "| recorded with | samples | frames each | begin at `_start` | recording | names | each sample | samples in a CPU second | file |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (tool, outcome) in best {
        println!(
            "| {} | {} | {:.1} | {:.1} % | {:.2} s | {:.2} s | {:.0} µs | {:.0} | {:.1} MB |",
            tool.name(),
            outcome.samples,
            outcome.frames as f64 / outcome.samples.max(1) as f64,
            100.0 * outcome.complete as f64 / outcome.samples.max(1) as f64,
            outcome.recording.as_secs_f64(),
            outcome.reading.as_secs_f64(),
            1e6 * outcome.each(),
            1.0 / outcome.each(),
            outcome.bytes as f64 / 1e6,
        );
    }
}

fn print_shares(best: &[(Tool, Outcome)]) {
    print!("\n| function |");
    best.iter()
        .for_each(|(tool, _)| print!(" time | {} |", tool.name()));
    println!("\n|---|{}", "--:|--:|".repeat(best.len()));
    let mut greatest = vec![0.0_f64; best.len()];
    for (number, (name, _)) in PARTS.into_iter().enumerate() {
        print!("| `{name}` |");
        for ((_, outcome), greatest) in best.iter().zip(&mut greatest) {
            let (time, seen) = (outcome.shares.measured(number), outcome.shares.of(name));
            *greatest = greatest.max((seen - time).abs());
            print!(" {time:.1} % | {seen:.1} % |");
        }
        println!();
    }
    print!("| greatest difference, points |");
    greatest
        .iter()
        .for_each(|points| print!(" | {points:.2} |"));
    println!();
    if let [(_, ours), (_, perf), ..] = best {
        let differences =
            PARTS.map(|(name, _)| (ours.shares.of(name) - perf.shares.of(name)).abs());
        let greatest = differences.into_iter().fold(0.0, f64::max);
        println!("\nBetween ferretto and perf: at most {greatest:.2} points.");
    }
}
