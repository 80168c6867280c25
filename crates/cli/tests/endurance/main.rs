//! A long recording: the service, the data sources of the machine and many programs, with clones at
//! intervals.
//!
//! Each program numbers its events. At the end, the events in the trace and those that the trace
//! reports as lost are all that were written. The memory and the descriptors of the service and of
//! the data sources stay the same.
//!
//! An ordinary test takes some seconds. `ENDURANCE_SECONDS=1200 cargo test -p ferretto-cli --test
//! endurance -- --nocapture` records for 20 minutes, with a clone every 10 seconds.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_testing::sdk::numbered;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

const FERRETTO: &str = env!("CARGO_BIN_EXE_ferretto");
/// Set in the process of a program, to its number.
const PROGRAM: &str = "FERRETTO_TEST_ENDURING_PROGRAM";
const SECONDS: &str = "ENDURANCE_SECONDS";
/// The number of programs.
const PROGRAMS: u64 = 20;
/// The events that a program writes in each period, and in each burst.
const EVENTS: u64 = 4;
const PERIOD: Duration = Duration::from_millis(20);
const BURST: u64 = 5000;
const PERIODS_BETWEEN_BURSTS: u64 = 1500;
/// The longest time of any operation.
const LIMIT: Duration = Duration::from_secs(120);
/// The growth of memory that is not one with time: the allocator keeps some.
const SLACK_KIB: u64 = 4096;

/// Everything into a file.
const INTO_FILE: &str = r#"
    buffers { size_kb: 16384 }
    data_sources { config { name: "track_event" } }
    data_sources { config { name: "linux.process_stats" process_stats_config { proc_stats_poll_ms: 1000 } } }
    write_into_file: true
    file_write_period_ms: 500
    flush_period_ms: 5000
    incremental_state_config { clear_period_ms: 2000 }
"#;

/// The newest events, which are cloned.
const RING: &str = r#"
    buffers { size_kb: 4096 fill_policy: RING_BUFFER }
    data_sources { config { name: "track_event" } }
    data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/sched_waking" } } }
    data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 500 } } }
    unique_session_name: "ring"
    duration_ms: 86400000
"#;

/// The seconds after which memory is flat.
const FILLED: u64 = 300;

/// The recorded program, in a process of its own.
#[test]
fn program_main() {
    let Some(number) = env::var(PROGRAM).ok().and_then(|text| text.parse().ok()) else {
        return;
    };
    ferretto::init().expect("tracing starts");
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin());
    println!("\nready");
    input.read_line(&mut line).expect("a line");
    // The end of the input ends it.
    let (ended, is_over) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = input.read_to_string(&mut String::new());
        let _ = ended.send(());
    });
    let (mut next, mut periods) = (0, number * 7);
    while is_over.recv_timeout(PERIOD).is_err() {
        periods += 1;
        let is_burst = periods % PERIODS_BETWEEN_BURSTS == 0;
        let count = if is_burst { BURST } else { EVENTS };
        numbered::write(number, next..next + count);
        next += count;
    }
    ferretto::flush(LIMIT);
    println!("\nwrote {next}");
}

/// A process that is killed at the end of the test.
struct Running(Child);

impl Running {
    /// Returns the number after `word` in a line of standard output.
    fn told(&mut self, word: &str) -> u64 {
        let output = BufReader::with_capacity(1, self.0.stdout.as_mut().expect("a pipe"));
        let line = output
            .lines()
            .map(|line| line.expect("text"))
            .find(|line| line.starts_with(word))
            .expect("it says so");
        line[word.len()..].trim().parse().unwrap_or(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World(TempDir);

impl World {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn prepare(&self, mut command: Command, name: &str) -> Command {
        command
            .current_dir(self.0.path())
            .env("TMPDIR", self.0.path())
            .env("PERFETTO_PRODUCER_SOCK_NAME", self.path("producer"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", self.path("consumer"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(self.path(name)).expect("a file"));
        command
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(FERRETTO);
        command.arg0(program).args(args);
        self.prepare(command, &format!("{program}.log"))
    }

    fn start(&self, program: &str) -> Running {
        Running(self.command(program, &[]).spawn().expect("it starts"))
    }

    fn program(&self, number: u64) -> Running {
        let mut command = Command::new(env::current_exe().expect("the path of this program"));
        command.args(["--exact", "program_main", "--nocapture"]);
        let mut command = self.prepare(command, "programs.log");
        command
            .env(PROGRAM, number.to_string())
            .stdin(Stdio::piped());
        let mut running = Running(command.spawn().expect("it starts"));
        running.told("ready");
        running
    }

    /// Starts a recording, and returns its process once all data sources record.
    fn record(&self, config: &str, output: &str) -> Pid {
        let name = format!("{output}.config");
        fs::write(self.path(&name), config).expect("the config is written");
        let args = ["--background-wait", "--txt", "-c", &name, "-o", output];
        let output = self.command("perfetto", &args).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        pid.unwrap_or_else(|| panic!("{output:?} {}", self.log("perfetto.log")))
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Clones the ring, and fails unless the clone opens and tells its losses.
    fn clone_ring(&self) -> u64 {
        let args = ["--clone-by-name", "ring", "-o", "clone"];
        let status = self.command("perfetto", &args).status().expect("it runs");
        assert!(status.success(), "{}", self.log("perfetto.log"));
        let file = File::open(self.path("clone")).expect("the clone");
        let bytes = file.metadata().expect("a file").len();
        let clone = numbered::read(BufReader::new(file));
        for (number, program) in clone.threads {
            // The ring begins anywhere.
            let unexplained =
                program.unexplained - u64::from(program.first > 0).min(program.unexplained);
            assert_eq!(unexplained, 0, "program {number} in a clone: {program:?}");
        }
        fs::remove_file(self.path("clone")).expect("it can be removed");
        bytes
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "timeout waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a recording in order.
fn finish(recording: Pid) {
    kill_process(recording, Signal::INT).expect("it runs");
    until("the recording has ended", || {
        test_kill_process(recording).is_err()
    });
}

/// The memory in KiB and the descriptors of a process.
#[derive(Debug, Clone, Copy)]
struct Usage {
    memory: u64,
    descriptors: u64,
}

impl Usage {
    fn of(process: &Running) -> Self {
        let pid = process.0.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.expect("its memory").trim().trim_end_matches(" kB");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
        Self {
            memory: memory.parse().expect("a number"),
            descriptors: descriptors.count() as u64,
        }
    }
}

/// Fails if memory or descriptors have grown between the first and the last third.
fn check_flat(name: &str, usages: &[Usage], seconds: u64) {
    let third = (usages.len() / 3).max(1);
    let (early, late) = (&usages[..third], &usages[usages.len() - third..]);
    let most = |usages: &[Usage], of: fn(&Usage) -> u64| usages.iter().map(of).max().unwrap_or(0);
    let memory = [early, late].map(|part| most(part, |usage| usage.memory));
    let descriptors = [early, late].map(|part| most(part, |usage| usage.descriptors));
    println!(
        "{name}: memory {} KiB in the first third, {} in the last; descriptors {} and {}",
        memory[0], memory[1], descriptors[0], descriptors[1]
    );
    // Until then, buffers fill.
    if seconds < FILLED {
        return;
    }
    assert!(
        memory[1] <= memory[0] + memory[0] / 10 + SLACK_KIB,
        "{name}: {usages:?}"
    );
    assert!(descriptors[1] <= descriptors[0] + 2, "{name}: {usages:?}");
}

#[test]
fn every_event_of_a_long_recording_is_there_or_counted_as_lost() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can record the kernel's events");
        return;
    }
    let seconds: u64 = env::var(SECONDS).map_or(4, |text| text.parse().expect("a number"));
    let pause = Duration::from_secs(if seconds < 60 { 1 } else { 10 });
    let world = World(
        tempfile::Builder::new()
            .prefix("ferretto-endurance-")
            .tempdir()
            .expect("a folder"),
    );
    let service = world.start("traced");
    until("the service accepts", || {
        UnixStream::connect(world.path("consumer")).is_ok()
    });
    let probes = world.start("traced_probes");
    let query = || {
        let output = world
            .command("perfetto", &["--query"])
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    until("the probes are registered", || {
        query().contains("linux.ftrace")
    });
    let mut programs: Vec<Running> = (0..PROGRAMS).map(|number| world.program(number)).collect();
    let recordings = [world.record(INTO_FILE, "all"), world.record(RING, "newest")];
    for program in &mut programs {
        let input = program.0.stdin.as_mut().expect("a pipe");
        input.write_all(b"go\n").expect("it listens");
    }

    let mut usages: [Vec<Usage>; 2] = Default::default();
    let (begin, mut clones) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(pause);
        let bytes = world.clone_ring();
        clones += 1;
        for (usages, process) in usages.iter_mut().zip([&service, &probes]) {
            usages.push(Usage::of(process));
        }
        if clones % 10 == 0 {
            let [service, probes] =
                [&usages[0], &usages[1]].map(|usages| usages.last().expect("one"));
            println!(
                "{clones} clones, the last of {bytes} bytes; traced {service:?}, traced_probes {probes:?}"
            );
        }
    }
    // The end of their input ends the programs.
    programs
        .iter_mut()
        .for_each(|program| drop(program.0.stdin.take()));
    let written: Vec<u64> = programs
        .iter_mut()
        .map(|program| program.told("wrote"))
        .collect();
    recordings.into_iter().for_each(finish);

    let trace = File::open(world.path("all")).expect("the trace");
    let bytes = trace.metadata().expect("a file").len();
    let numbered = numbered::read(BufReader::with_capacity(1 << 20, trace));
    let (mut seen, mut lost) = (0, 0);
    for (number, written) in written.iter().enumerate() {
        let program = &numbered.threads[&(number as u64)];
        seen += program.seen;
        lost += program.missing;
        assert_eq!(program.unexplained, 0, "program {number}: {program:?}");
        assert_eq!(
            program.next, *written,
            "program {number} at its end: {program:?}"
        );
        assert_eq!(
            program.seen + program.missing,
            *written,
            "program {number}: {program:?}"
        );
    }
    println!(
        "{seconds} s, {PROGRAMS} programs, {clones} clones: {} events written, {seen} in the trace of {bytes} bytes, \
         {lost} counted as lost",
        written.iter().sum::<u64>()
    );
    // The events between a loss and the next state are lost with it.
    assert!(
        lost > 0 || numbered.problems.is_empty(),
        "{:?}",
        numbered.problems
    );
    check_flat("traced", &usages[0], seconds);
    check_flat("traced_probes", &usages[1], seconds);
}
