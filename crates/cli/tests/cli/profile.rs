//! Callstacks: `record --perf`, and the views of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ferretto_trace::profile::{Profile, Selection, StackCounts, Value, hottest, read_profile};
use ferretto_trace::summary::{Cause, Loss};

use crate::users::as_nobody;
use crate::world::{FERRETTO, Finished, World, has_content, until};

/// A program that computes for half a second of CPU time, so that the load of the machine does not
/// matter, in processes named `busy`.
const BUSY: &str = r#"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
volatile unsigned long sink;
__attribute__((noinline)) void innermost(void) { for (int i = 0; i < 10000; i++) sink += i; }
static inline __attribute__((always_inline)) void inlined(void) { for (int i = 0; i < 10000; i++) sink ^= i; }
__attribute__((noinline)) void outer(void) { innermost(); inlined(); }
int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.4;
    int code = argc > 2 ? atoi(argv[2]) : 0;
    while (clock() < seconds * CLOCKS_PER_SEC) outer();
    return code;
}
"#;

/// Returns the program [`BUSY`]; `None` without a compiler.
fn busy(world: &World) -> Option<PathBuf> {
    world.compile("busy", BUSY, &["-g", "-O1"])
}

/// Returns true if callstacks could not be recorded because this machine does not allow it.
pub(crate) fn is_forbidden(output: &Finished) -> bool {
    let forbidden = output.stderr.contains("callstacks cannot be recorded");
    if forbidden {
        println!("skipped: {}", output.stderr);
    }
    forbidden
}

fn read(world: &World, name: &str) -> (Profile, StackCounts) {
    let file = fs::File::open(world.path(name)).unwrap();
    let (profile, counts) = read_profile(file, Selection::default()).unwrap();
    assert!(profile.problems().is_empty(), "{:?}", profile.problems());
    (profile, counts)
}

/// Returns the names of functions, with the samples of the function itself and with its callees.
fn functions(world: &World, name: &str) -> Vec<(String, u64, u64)> {
    let (profile, counts) = read(world, name);
    hottest(&profile, &counts, Value::Samples)
        .into_iter()
        .map(|hot| (hot.name, hot.own.samples, hot.total.samples))
        .collect()
}

#[track_caller]
fn assert_busy(functions: &[(String, u64, u64)]) {
    let total = |name: &str| {
        let found = functions.iter().find(|(found, ..)| found == name);
        found.map_or(0, |(_, _, total)| *total)
    };
    assert!(total("main") > 10, "{functions:?}");
    assert!(total("outer") > 10, "{functions:?}");
    assert!(
        total("innermost") > 0 && total("inlined") > 0,
        "{functions:?}"
    );
    assert!(
        total("outer") >= total("innermost") + total("inlined"),
        "{functions:?}"
    );
}

#[test]
fn perf_047_a_command_is_recorded_with_names_in_the_trace() {
    let world = World::new();
    let Some(program) = busy(&world) else { return };
    let args = [
        "record",
        "--perf=499",
        "--",
        program.to_str().unwrap(),
        "0.4",
        "7",
    ];
    let output = world.run("ferretto", &args);
    if is_forbidden(&output) {
        return;
    }
    let output = output
        .returned(7)
        .complained("callstacks by cpu-clock, 499 times a second");
    assert!(output.stderr.contains("innermost"), "{}", output.stderr);
    assert_busy(&functions(&world, "trace.pftrace"));
    let summary = world.summary("trace.pftrace");
    // On a loaded machine, a request of the service may time out, which is not tested here.
    let is_of_samples = |loss: &&Loss| loss.cause != Cause::Flush;
    let losses: Vec<_> = summary.losses.iter().filter(is_of_samples).collect();
    assert!(losses.is_empty(), "{losses:?}");
    let profile = &summary.profiles[0];
    assert_eq!(
        profile.processes.len(),
        1,
        "only the command: {:?}",
        profile.processes
    );
    let name = &profile.processes[0].name;
    assert!(name.ends_with("busy 0.4 7") || name == "busy", "{name}");

    // The commands that show the profile.
    let folded = world
        .run("ferretto", &["folded", "trace.pftrace"])
        .returned(0);
    assert!(
        folded.text().contains(";main;outer;innermost "),
        "{}",
        folded.text()
    );
    let first = folded.text().lines().next().unwrap();
    assert!(first.starts_with("busy;"), "{first}");
    world
        .run(
            "ferretto",
            &["flamegraph", "--title", "A <test>", "trace.pftrace"],
        )
        .returned(0)
        .complained("trace.svg");
    let svg = String::from_utf8(world.read("trace.svg")).unwrap();
    assert!(svg.contains("A &lt;test&gt;") && svg.contains("innermost"));
    world
        .run(
            "ferretto",
            &[
                "flamegraph",
                "-o",
                "-",
                "--before",
                "trace.pftrace",
                "trace.pftrace",
            ],
        )
        .returned(0);
    world
        .run("ferretto", &["pprof", "trace.pftrace"])
        .returned(0);
    assert_eq!(world.read("trace.pb.gz")[..2], [0x1f, 0x8b]);
    world
        .run(
            "ferretto",
            &["pprof", "--per-process", "profiles", "trace.pftrace"],
        )
        .returned(0);
    let profiles = fs::read_dir(world.path("profiles")).unwrap();
    let names: Vec<_> = profiles.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1);
    let pid = profile.processes[0].id;
    assert_eq!(
        names[0].to_str().unwrap(),
        format!("profile.0.pid.{pid}.pb.gz")
    );
    world
        .run("ferretto", &["folded", "-p", "1", "trace.pftrace"])
        .returned(1)
        .complained("no callstack sample of trace.pftrace is selected");
    let name = &profile.threads[0].name;
    world
        .run(
            "ferretto",
            &["folded", "--thread", "nosuch", "trace.pftrace"],
        )
        .returned(1)
        .complained("has no callstack sample of such a thread; there are samples of")
        .complained(name);
}

#[test]
fn a_trace_on_standard_output_has_names() {
    let world = World::new();
    let Some(program) = busy(&world) else { return };
    // The command's standard output would be in the trace.
    let args = [
        "record",
        "--perf=499",
        "-o",
        "-",
        "--",
        program.to_str().unwrap(),
        "0.2",
    ];
    let output = world.run("ferretto", &args);
    if is_forbidden(&output) {
        return;
    }
    let output = output.returned(0);
    world.write("piped.pftrace", &output.stdout);
    assert_busy(&functions(&world, "piped.pftrace"));
}

#[test]
fn a_recording_of_processes_ends_with_them() {
    let world = World::new();
    let mut process = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = process.id().to_string();
    let args = ["record", "--perf", "-p", &pid, "-d", "0"];
    let mut recording = world.start("ferretto", &args);
    until("something is recorded, or cannot be", || {
        let ended = recording.child().try_wait().unwrap().is_some();
        (ended || has_content(&world.path("trace.pftrace")).is_some()).then_some(())
    });
    process.kill().unwrap();
    process.wait().unwrap();
    let output = recording.finish();
    if is_forbidden(&output) {
        return;
    }
    output
        .returned(0)
        .complained("the recorded processes have ended");
}

#[test]
fn running_processes_are_recorded_by_their_ids() {
    let world = World::new();
    let Some(program) = busy(&world) else { return };
    let mut running: Vec<_> = (0..2)
        .map(|_| Command::new(&program).arg("60").spawn().unwrap())
        .collect();
    let pids: Vec<u32> = running.iter().map(std::process::Child::id).collect();
    let list = format!("{},{}", pids[0], pids[1]);
    // Long enough for both to run on a loaded machine.
    let args = ["record", "--perf=499", "-p", &list, "-d", "1500ms"];
    let output = world.run("ferretto", &args);
    for process in &mut running {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    if is_forbidden(&output) {
        return;
    }
    output.returned(0);
    assert_busy(&functions(&world, "trace.pftrace"));
    let summary = world.summary("trace.pftrace");
    let mut seen: Vec<u32> = summary.profiles[0]
        .processes
        .iter()
        .map(|process| process.id as u32)
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, pids);
}

#[test]
fn missing_processes_and_invalid_rates_are_reported() {
    let world = World::new();
    world
        .run("ferretto", &["record", "--perf", "-p", "999999999"])
        .returned(1)
        .complained("there is no process 999999999");
    world
        .run(
            "ferretto",
            &["record", "--perf", "-p", "999999999,999999998"],
        )
        .returned(1)
        .complained("there are no processes 999999999, 999999998");
    world
        .run("ferretto", &["record", "-p", "1"])
        .returned(1)
        .complained("-p selects processes for --perf, --off-cpu, --why, --heap or --syscalls");
    for rate in ["--perf=0", "--perf=10001", "--perf=often"] {
        let output = world.run("ferretto", &["record", rate, "--", "true"]);
        output.returned(2).complained("'--perf[=<HZ>]'");
    }
    assert_eq!(world.names(), [""; 0], "no files are left");
}

#[test]
fn commands_that_end_at_once_or_cannot_be_run_do_not_block() {
    let world = World::new();
    let output = world.run("ferretto", &["record", "--perf", "--", "true"]);
    if is_forbidden(&output) {
        return;
    }
    output.returned(0);
    world.write("no-program", "#!/etc/passwd\n");
    let path = world.path("no-program");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    world
        .run(
            "ferretto",
            &["record", "--perf", "--", path.to_str().unwrap()],
        )
        .returned(126)
        .complained("cannot run");
    world
        .run("ferretto", &["record", "--perf", "--", "no-such-command"])
        .returned(127);
}

#[test]
fn waiting_is_recorded_with_its_time() {
    let world = World::new();
    let args = ["record", "--off-cpu", "--", "sleep", "0.5"];
    let output = world.run("ferretto", &args);
    if is_forbidden(&output) {
        return;
    }
    output.returned(0).complained("off the CPU, by callstack");
    let summary = world.summary("trace.pftrace");
    let [profile] = &summary.profiles[..] else {
        panic!("{:#?}", summary.profiles)
    };
    assert!(profile.is_off_cpu);
    assert!(profile.total.weight >= 450_000_000, "{profile:#?}");
    let folded = world
        .run("ferretto", &["folded", "trace.pftrace"])
        .returned(0);
    let longest = folded
        .text()
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .max_by_key(|(_, ns)| ns.parse::<u64>().unwrap())
        .unwrap();
    assert!(longest.0.contains("nanosleep"), "{}", longest.0);
    world
        .run("ferretto", &["flamegraph", "trace.pftrace"])
        .returned(0);
    let svg = String::from_utf8(world.read("trace.svg")).unwrap();
    assert!(svg.contains("time spent waiting"));
}

/// Two processes that wait for each other as often as they can.
const PING_PONG: &str = r#"
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int argc, char **argv) {
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back)) return 1;
    int rounds = atoi(argv[1]);
    if (fork() == 0) {
        for (int i = 0; i < rounds; i++) if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) return 1;
        return 0;
    }
    for (int i = 0; i < rounds; i++) if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
    return wait(0) < 0;
}
"#;

#[test]
fn tens_of_thousands_of_waits_are_thinned_out_and_not_lost() {
    let world = World::new();
    let Some(program) = world.compile("ping-pong", PING_PONG, &[]) else {
        return;
    };
    let args = [
        "record",
        "--off-cpu",
        "--",
        program.to_str().unwrap(),
        "40000",
    ];
    let output = world.run("ferretto", &args);
    if is_forbidden(&output) {
        return;
    }
    output.returned(0);
    let summary = world.summary("trace.pftrace");
    let of_samples = |loss: &&Loss| matches!(loss.cause, Cause::SampleRing | Cause::UnwindQueue);
    let lost: Vec<_> = summary.losses.iter().filter(of_samples).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    let [profile] = &summary.profiles[..] else {
        panic!("{:#?}", summary.profiles)
    };
    // The limit is a rate, and a busy machine takes longer for the same number of waits.
    let seconds = summary.duration_ns.unwrap_or(0).div_ceil(1_000_000_000);
    let most = (40_000 * seconds.max(1)).min(2 * 40_000);
    let samples = profile.total.samples;
    assert!((10..most).contains(&samples), "{samples} samples");
    let share =
        |note: &String| note.contains(" have a callstack, which stands for those of its thread");
    assert!(summary.notes.iter().any(share), "{:?}", summary.notes);
}

#[test]
fn traces_without_callstacks_are_reported_with_a_hint() {
    let world = World::new();
    let trace = ferretto_wire::encode(|trace| {
        trace.nested(1, |packet| packet.varint(8, 1));
    });
    world.write("empty.pftrace", trace);
    for command in ["flamegraph", "folded", "pprof"] {
        world
            .run("ferretto", &[command, "empty.pftrace"])
            .returned(1)
            .complained("record them with ferretto record --perf");
    }
    assert_eq!(world.names(), ["empty.pftrace"]);
}

/// At a `perf_event_paranoid` of 2, a user without privileges can record only own programs.
#[test]
fn a_user_without_privileges_records_an_own_command() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    let Some(program) = busy(&world) else { return };
    // A folder in which the other user can run the program, and write.
    let ferretto = world.path("ferretto");
    // Copied by another process, since a program cannot be run while it is open for writing in this
    // one, or in a child that another test is starting.
    let copied = Command::new("cp").arg(FERRETTO).arg(&ferretto).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let record = |args: &[&str]| {
        let mut command = Command::new(&ferretto);
        command.arg("record").args(args);
        as_nobody(world.at_home(command)).expect("it runs")
    };
    let command = ["--perf=499", "--", program.to_str().unwrap(), "0.2"];
    let output = record(&command);
    if is_forbidden(&output) {
        assert!(
            output.stderr.contains("ask the administrator"),
            "{}",
            output.stderr
        );
        return;
    }
    output.returned(0);
    assert_busy(&functions(&world, "trace.pftrace"));
    let name = &world.summary("trace.pftrace").profiles[0].processes[0].name;
    assert!(name.ends_with("busy 0.2"), "{name}");

    // Programs of other users cannot be recorded; the error has a hint.
    let output = record(&["--perf", "-d", "100ms", "-o", "all.pftrace"]);
    if output.code != 0 {
        output
            .complained("callstacks cannot be recorded")
            .complained("sudo sysctl kernel.perf_event_paranoid=");
        assert!(!world.path("all.pftrace").exists(), "nothing was recorded");
    }
}

#[test]
fn recordings_without_samples_are_reported_with_the_likely_reason() {
    let world = World::new();
    let output = world.run("ferretto", &["record", "--perf", "--", "sleep", "0.1"]);
    if is_forbidden(&output) {
        return;
    }
    let output = output.returned(0);
    // On a slow machine, its start may take long enough for a sample.
    if world.summary("trace.pftrace").profiles.is_empty() {
        output
            .complained("0 callstack samples: the recorded processes used less CPU time")
            .complained("--off-cpu shows where programs wait");
    }
}
