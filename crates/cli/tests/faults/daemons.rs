//! The daemons: the service, and programs with data sources for it.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_testing::faults::{Effect, End, Fault, Outcome, Run};
use rustix::process::{Pid, Signal, kill_process};

use crate::judge::{self, Judged};
use crate::plan::{cover, jobs};
use crate::program;
use crate::world::World;

/// The longest time that a daemon runs, and that a client waits for it.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that a daemon has to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The content of the output before the recording.
const OLD: &[u8] = b"the file that was there before";

/// A daemon that runs without a fault, and is killed at the end of the test.
struct Sound(Child);

impl Sound {
    fn start(world: &World, program: &str) -> Self {
        let child = world.command(program, &[""; 0]).spawn();
        Self(child.expect("the daemon starts"))
    }
}

impl Drop for Sound {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon of which a call fails.
struct Faulty {
    pid: i32,
    thread: JoinHandle<Outcome>,
}

impl Faulty {
    fn start(command: Command, fault: Option<Fault>) -> Self {
        let run = Run::new(command).fault(fault).limit(LIMIT + PATIENCE);
        let (pid, thread) = run.start().expect("the daemon starts");
        Self { pid, thread }
    }

    fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the daemon as an operator does, unless it has ended.
    fn end(self) -> Outcome {
        if !self.has_ended() {
            // Fails only if it has ended meanwhile.
            let _ = kill_process(Pid::from_raw(self.pid).expect("a process"), Signal::TERM);
        }
        self.thread.join().expect("the tracer")
    }
}

/// Waits until a condition holds; returns false if it does not in time.
fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(2);
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(50));
    }
    true
}

/// Returns true if a service accepts consumers.
fn is_served(world: &World) -> bool {
    UnixStream::connect(world.socket("consumer")).is_ok()
}

/// Runs a client to its end, and returns its exit code, or 128 plus a signal.
fn finish(mut command: Command, limit: Duration) -> Result<i32, String> {
    let mut child = command.spawn().expect("the client starts");
    let mut status = None;
    until(limit, || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("its client {command:?} does not end"));
    };
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.unwrap_or_default())
}

/// Fails if the trace at `t` replaced the earlier file by one that does not open or hides a loss.
/// With `is_whole`, it must have all events of the program, without one, those of no program.
fn judge_trace(world: &World, is_complete: bool, is_whole: Option<bool>) -> Result<(), String> {
    let [trace, old] = ["t", "t.old"].map(|name| world.read(name));
    if trace.as_deref() != Some(OLD) && old.as_deref() != Some(OLD) {
        return Err("the earlier file is gone".to_owned());
    }
    match trace {
        Some(trace) if trace != OLD => match is_whole {
            Some(is_whole) => program::judge_trace(world, "t", is_complete, is_whole),
            None => judge::opens(world, "t").map(|_| ()),
        },
        _ if is_whole == Some(true) => Err("there is no trace".to_owned()),
        _ => Ok(()),
    }
}

/// Returns true if the daemon should go on after the fault.
fn should_recover(fault: Option<Fault>) -> bool {
    !fault.is_some_and(|fault| matches!(fault.effect, Effect::LastingError(_) | Effect::Kill))
}

fn service(config: &str, fault: Option<Fault>) -> Judged {
    let world = World::new();
    world.write("config", config);
    world.write("t", OLD);
    let daemon = Faulty::start(world.command("traced", &[""; 0]), fault);
    until(LIMIT, || is_served(&world) || daemon.has_ended());
    let mut check = Ok(());
    let mut code = None;
    if !daemon.has_ended() {
        let args = ["record", "--system", "-c", "config", "-o", "t"];
        let mut record = world.command("ferretto", &args);
        program::add_to(&mut record);
        match finish(record, LIMIT) {
            Ok(it) => code = Some(it),
            Err(stuck) => check = Err(stuck),
        }
        if check.is_ok() && !daemon.has_ended() && should_recover(fault) {
            let query = || finish(world.command("perfetto", &["--query"]), LIMIT);
            // The call of a query may be the one that fails.
            match query().and_then(|code| if code == 0 { Ok(0) } else { query() }) {
                Ok(0) => {}
                // It may be ending.
                _ if until(PATIENCE, || daemon.has_ended()) => {}
                other => check = Err(format!("it does not serve any more: {other:?}")),
            }
        }
    }
    let outcome = daemon.end();
    let stderr = world.stderr("traced") + &world.stderr("ferretto");
    let check = check
        .and_then(|()| judge::end(&outcome, fault, &stderr))
        .and_then(|()| judge_trace(&world, code == Some(0), Some(fault.is_none())))
        .and_then(|()| match (code, fault) {
            (Some(0), _) | (_, Some(_)) => Ok(()),
            (code, None) => Err(format!("record returned {code:?}")),
        });
    let wrong = check.map_err(|wrong| format!("{wrong}\n{stderr}"));
    Judged { outcome, wrong }
}

#[test]
fn traced() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" } }
    "#;
    cover("traced", |fault| service(CONFIG, fault));
}

#[test]
fn traced_into_file() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" } }
        write_into_file: true
        file_write_period_ms: 100
        fflush_post_write: FFLUSH_ENABLED
    "#;
    cover("traced with write_into_file", |fault| {
        service(CONFIG, fault)
    });
}

/// Runs a program with data sources for a sound service, and records them.
fn sources(program: &str, config: &str, command: &[String], fault: Option<Fault>) -> Judged {
    sources_in(&World::new(), program, config, command, fault, |_| Ok(()))
}

fn sources_in(
    world: &World,
    program: &str,
    config: &str,
    command: &[String],
    fault: Option<Fault>,
    judge_summary: impl FnOnce(&str) -> Result<(), String>,
) -> Judged {
    world.write("config", config);
    world.write("t", OLD);
    let _service = Sound::start(world, "traced");
    assert!(until(LIMIT, || is_served(world)), "the service starts");
    let daemon = Faulty::start(world.command(program, &[""; 0]), fault);
    let is_registered = || {
        let query = world.command("perfetto", &["--query"]);
        let listed = finish(query, LIMIT).is_ok();
        listed && world.stdout("perfetto").contains(&format!("{program} "))
    };
    until(LIMIT, || is_registered() || daemon.has_ended());
    let mut args: Vec<String> = ["record", "--system", "-c", "config", "-o", "t"]
        .map(str::to_owned)
        .into();
    if !command.is_empty() {
        args.push("--".to_owned());
        args.extend(command.iter().cloned());
    }
    let recorded = finish(world.command("ferretto", &args), LIMIT);
    let is_complete = recorded == Ok(0);
    let outcome = daemon.end();
    let stderr = world.stderr(program) + &world.stderr("ferretto");
    let check = recorded
        .and_then(|code| match code {
            0 => Ok(()),
            // A data source of a daemon that has ended is missing.
            _ if fault.is_some() => Ok(()),
            code => Err(format!("record returned {code}")),
        })
        .and_then(|()| judge::end(&outcome, fault, &stderr))
        .and_then(|()| judge_trace(world, false, None))
        .and_then(|()| match world.read("t") {
            Some(trace) if is_complete && trace != OLD => judge_summary(&judge::opens(world, "t")?),
            _ => Ok(()),
        })
        .and_then(|()| match (outcome.end, fault) {
            (End::Exited(0), _) | (_, Some(_)) => Ok(()),
            (end, None) => Err(format!("it ended with {end:?}")),
        });
    let wrong = check.map_err(|wrong| format!("{wrong}\n{stderr}"));
    Judged { outcome, wrong }
}

/// Runs a test again in a process of its own that sees no other processes but its children, and
/// returns true; returns false there, and where that is not possible. The calls of a program that
/// reads facts of all processes are the same in each run then, and few.
fn runs_alone(test: &str) -> bool {
    const ALONE: &str = "FERRETTO_TEST_ALONE";
    // All end with this process.
    const ENDING: [&str; 3] = ["--pdeathsig", "KILL", "unshare"];
    const OPTIONS: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let unshare = || {
        let mut command = Command::new("setpriv");
        command.args(ENDING).args(OPTIONS);
        command
    };
    let is_possible = || unshare().arg("true").status();
    if env::var_os(ALONE).is_some() || !is_possible().is_ok_and(|status| status.success()) {
        return false;
    }
    let program = env::current_exe().expect("the path of this program");
    let status = unshare()
        .arg(program)
        .args(["--exact", test, "--nocapture", "--quiet"])
        .env(ALONE, "1")
        .status();
    assert!(status.expect("unshare runs").success());
    true
}

/// An instance of the kernel's tracing, with buffers of its own.
struct Instance {
    name: String,
}

impl Instance {
    /// Creates an instance that is named after a folder.
    fn new(world: &World) -> Self {
        let folder = world.path("");
        let unique = folder.parent().and_then(Path::file_name).expect("a name");
        let instance = Self {
            name: unique.to_string_lossy().into_owned(),
        };
        fs::create_dir(instance.path()).expect("an instance");
        instance
    }

    fn path(&self) -> PathBuf {
        Path::new("/sys/kernel/tracing/instances").join(&self.name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel refuses while a program that was killed has files there open.
        until(PATIENCE, || fs::remove_dir(self.path()).is_ok());
    }
}

/// The threads of kernel events are not looked up: the scan makes the same calls, and how many
/// threads there are depends on the rest of the machine.
#[test]
fn traced_probes() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config {
            name: "linux.ftrace"
            ftrace_config { INSTANCE ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking" drain_period_ms: 50 }
        } }
        data_sources { config {
            name: "linux.process_stats"
            process_stats_config {
                quirks: DISABLE_ON_DEMAND
                scan_all_processes_on_start: true
                proc_stats_poll_ms: 100
            }
        } }
        data_sources { config {
            name: "linux.sys_stats"
            sys_stats_config { meminfo_period_ms: 50 stat_period_ms: 50 vmstat_period_ms: 50 }
        } }
        duration_ms: 150
    "#;
    if !runs_alone("daemons::traced_probes") {
        cover("traced_probes", |fault| {
            let world = World::new();
            // Only one program at a time may use the kernel's main buffers.
            let instance = (jobs() > 1).then(|| Instance::new(&world));
            let name = instance.as_ref().map_or("", |instance| &instance.name);
            let option = format!("instance_name: \"{name}\"");
            let config = CONFIG.replace("INSTANCE", &option);
            sources_in(&world, "traced_probes", &config, &[], fault, |_| Ok(()))
        });
    }
}

#[test]
fn traced_perf() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config {
            name: "linux.perf"
            perf_event_config {
                timebase { frequency: 500 counter: SW_CPU_CLOCK }
                callstack_sampling { scope { target_cmdline: "sh" } }
                ring_buffer_read_period_ms: 100
            }
        } }
        duration_ms: 10000
    "#;
    let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let command = ["sh", "-c", busy].map(str::to_owned);
    cover("traced_perf", |fault| {
        sources("traced_perf", CONFIG, &command, fault)
    });
}

#[test]
fn heapprofd() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config {
            name: "android.heapprofd"
            heapprofd_config {
                process_cmdline: "sh"
                sampling_interval_bytes: 1
                block_client: true
                continuous_dump_config { dump_interval_ms: 100 }
            }
        } }
        duration_ms: 10000
    "#;
    let busy = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); set -- $@ $i; done";
    // The shell allocates the same in each run.
    let expected = OnceLock::new();
    let judge_summary = |text: &str, fault: Option<Fault>| {
        let line = text.lines().find(|line| line.contains(", libc.malloc: "));
        let allocated = line.and_then(|line| line.rsplit_once(" of ").map(|(_, it)| it.to_owned()));
        if fault.is_none() {
            let allocated = allocated.ok_or(format!("the heap is not in the trace: {text}"))?;
            expected.get_or_init(|| allocated);
            return Ok(());
        }
        let says_whole = judge::says_whole(text) && !text.contains("note: no data from");
        if says_whole && allocated.as_ref() != expected.get() {
            return Err(format!(
                "no data is lost, and the shell has allocated {allocated:?}, not {:?}\n{text}",
                expected.get()
            ));
        }
        Ok(())
    };
    let prepared = World::new();
    let library = prepared.path("libferretto_heap.so");
    let path = library.to_str().expect("a path");
    let write = prepared.command("heapprofd", &["--write-library", path]);
    assert_eq!(finish(write, LIMIT), Ok(0), "the library is written");
    let preload = format!("LD_PRELOAD={path}");
    let command = ["env", &preload, "sh", "-c", busy].map(str::to_owned);
    cover("heapprofd", |fault| {
        sources_in(
            &World::new(),
            "heapprofd",
            CONFIG,
            &command,
            fault,
            |text| judge_summary(text, fault),
        )
    });
}
