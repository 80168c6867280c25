//! Heaps: `record --heap`, and the views of them.

use std::path::PathBuf;
use std::process::Command;

use ferretto_trace::summary::HeapSummary;
use rustix::process::Signal;

use crate::world::{Running, World, has_content, until};

/// A program that leaks 100 bytes a thousand times, again for each line of its input, and that
/// allocates and frees 500 bytes as often.
const LEAK: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static void *volatile last;
__attribute__((noinline)) void remember(size_t size) { last = malloc(size); }
__attribute__((noinline)) void work(size_t size) { void *memory = malloc(size); last = memory; free(memory); }
int main(int argc, char **argv) {
    char byte;
    do {
        for (int i = 0; i < 1000; i++) { work(500); remember(100); }
        if (argc > 1 && write(1, "w", 1) < 0) return 9;
    } while (argc > 1 && read(0, &byte, 1) == 1);
    return 0;
}
"#;

/// Returns the program [`LEAK`]; `None` without a compiler.
fn leak(world: &World) -> Option<PathBuf> {
    world.compile("leak", LEAK, &["-g", "-O1", "-fno-builtin"])
}

fn heaps(world: &World, name: &str) -> Vec<HeapSummary> {
    let summary = world.summary(name);
    assert!(summary.losses_known(), "{:?}", summary.unknown);
    let mut heaps = summary.heaps;
    heaps.retain(|heap| heap.process.contains("leak"));
    heaps
}

/// Returns the bytes that a function has allocated and not freed.
fn leaked(heap: &HeapSummary, function: &str) -> u64 {
    let mut sites = heap.sites.iter().map(|site| &site.function);
    let site = sites.find(|site| site.name == function);
    site.map_or(0, |site| site.own.weight)
}

#[test]
fn a_command_that_the_library_keeps_from_starting_is_explained() {
    let world = World::new();
    let explanation = "cannot start with libferretto_heap.so";
    for (code, is_explained) in [(127, true), (126, false)] {
        let command = format!("exit {code}");
        let args = ["record", "--heap", "-o", "t", "--", "sh", "-c", &command];
        let output = world.run("ferretto", &args).returned(code);
        assert_eq!(output.stderr.contains(explanation), is_explained, "{code}");
    }
    // Without the library there is another reason.
    let args = ["record", "-o", "t", "--", "sh", "-c", "exit 127"];
    let output = world.run("ferretto", &args).returned(127);
    assert!(!output.stderr.contains(explanation));
}

#[test]
fn the_heap_of_a_command_is_recorded_and_shown() {
    let world = World::new();
    if leak(&world).is_none() {
        return;
    }
    let args = ["record", "--heap=1", "-o", "t", "--", "./leak"];
    world.run("ferretto", &args).returned(0);
    let heaps = heaps(&world, "t");
    assert_eq!(heaps.len(), 1, "{heaps:?}");
    assert_eq!(heaps[0].heap, "libc.malloc");
    assert_eq!(leaked(&heaps[0], "remember"), 100_000);
    assert_eq!(leaked(&heaps[0], "work"), 0);
    let folded = |view: &str| {
        let args = ["folded", view, "--by", "function", "t"];
        let output = world.run("ferretto", &args).returned(0);
        output.text().to_owned()
    };
    let has = |text: &str, end: &str| text.lines().any(|line| line.ends_with(end));
    let left = folded("--heap");
    assert!(has(&left, "main;remember 100000"), "{left}");
    assert!(!left.contains("work"), "{left}");
    let all = folded("--heap=allocated");
    assert!(
        has(&all, "main;work 500000") && has(&all, "main;remember 100000"),
        "{all}"
    );
    // At the peak, the last 500 bytes of `work` were allocated.
    let peak = folded("--heap=peak");
    assert!(has(&peak, "main;work 500"), "{peak}");
    let args = ["flamegraph", "--heap", "t", "-o", "t.svg"];
    world.run("ferretto", &args).returned(0);
    let svg = String::from_utf8(world.read("t.svg")).unwrap();
    assert!(svg.contains("memory not freed") && svg.contains("remember"));
    let args = ["pprof", "--heap", "t", "-o", "t.pb.gz"];
    world.run("ferretto", &args).returned(0);
    assert_eq!(world.read("t.pb.gz")[..2], [0x1f, 0x8b]);
    let output = world.run("ferretto", &["summary", "t"]).returned(0);
    let text = output.text();
    assert!(
        text.contains("heap, each allocation") && text.contains("remember"),
        "{text}"
    );
    assert!(
        text.contains("KiB not freed of ") && !text.contains('±'),
        "nothing is left out: {text}"
    );
    let args = ["record", "--heap=512", "-o", "s", "--", "./leak"];
    world.run("ferretto", &args).returned(0);
    let said = world.run("ferretto", &["summary", "s"]).returned(0);
    assert!(said.text().contains("KiB not freed, ± "), "{}", said.text());
}

/// A program that maps 1 MiB and unmaps half of it.
const MAPS: &str = r#"
#include <sys/mman.h>
__attribute__((noinline)) void take(void) {
    char *all = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(all, 1 << 19);
}
int main(void) { take(); }
"#;

#[test]
fn mappings_are_recorded_on_request() {
    let world = World::new();
    if world.compile("leak", MAPS, &["-g", "-O1"]).is_none() {
        return;
    }
    let mapped = |args: &[&str]| {
        let record = ["record", "--heap", "-o", "t"];
        let args: Vec<&str> = record.iter().chain(args).copied().collect();
        world.run("ferretto", &args).returned(0);
        let mut heaps = heaps(&world, "t");
        heaps.retain(|heap| heap.heap == "libc.mmap");
        heaps.iter().map(|heap| leaked(heap, "take")).sum::<u64>()
    };
    assert_eq!(mapped(&["--heap-mmap", "--", "./leak"]), 1 << 19);
    assert_eq!(mapped(&["--", "./leak"]), 0);
    world
        .run("ferretto", &["record", "--heap-mmap", "--", "./leak"])
        .returned(2)
        .complained("--heap");
}

#[test]
fn dumps_show_growth_and_are_compared() {
    let world = World::new();
    if leak(&world).is_none() {
        return;
    }
    // The program continues once the trace has grown by a dump.
    let script = "mkfifo in; ./leak wait < in > out & exec 3> in; \
        until [ -s out ]; do sleep 0.02; done; sleep 0.3; printf g >&3; \
        until [ $(wc -c < out) = 2 ]; do sleep 0.02; done; exec 3>&-; wait";
    let args = [
        "record",
        "--heap=1",
        "--heap-dumps=50ms",
        "-o",
        "t",
        "--",
        "sh",
        "-c",
        script,
    ];
    world.run("ferretto", &args).returned(0);
    let heaps = heaps(&world, "t");
    let live = &heaps[0].live;
    assert!(live.len() > 1 && live.is_sorted(), "{live:?}");
    assert_eq!(leaked(&heaps[0], "remember"), 200_000);
    let last = live.len().to_string();
    let diff = format!("--diff=1,{last}");
    let args = ["flamegraph", "--heap", &diff, "t", "-o", "d.svg"];
    world.run("ferretto", &args).returned(0);
    let svg = String::from_utf8(world.read("d.svg")).unwrap();
    assert!(svg.contains("flamegraph: changes"), "{svg}");
    world
        .run("ferretto", &["flamegraph", "--heap", "--diff=1,99", "t"])
        .returned(1)
        .complained("no heap dump 99");
    world
        .run("ferretto", &["flamegraph", "--diff=1,2", "t"])
        .returned(2)
        .complained("--heap");
}

#[test]
fn a_program_that_cannot_load_the_client_is_reported() {
    let world = World::new();
    if world.compile("leak", LEAK, &["-static"]).is_none() {
        return;
    }
    let args = ["record", "--heap", "-o", "t", "--", "./leak"];
    world
        .run("ferretto", &args)
        .returned(0)
        .complained("a statically linked program needs its allocator");
}

/// Returns the waiting program with the client.
fn waiting(world: &World) -> Option<Running> {
    leak(world)?;
    let library = world.path("libferretto_heap.so");
    let path = library.to_str().unwrap();
    world
        .run("heapprofd", &["--write-library", path])
        .returned(0);
    let mut command = world.at_home(Command::new("./leak"));
    command
        .arg("wait")
        .env("LD_PRELOAD", &library)
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(world.path("out")).unwrap());
    let running = Running::new(command.spawn().unwrap());
    until("it waits", || has_content(&world.path("out")));
    Some(running)
}

#[test]
fn the_heap_of_a_running_program_is_recorded() {
    let mut world = World::new();
    // An earlier profiler leaves the page by which programs are reached.
    let heap = world.path("heap");
    world.set("FERRETTO_HEAP_SOCK_NAME", heap.to_str().unwrap());
    let before = world.start("heapprofd", &[""; 0]);
    until("there is a page", || has_content(&world.path("heap.page")));
    before.signal(Signal::TERM);
    before.finish().returned(0);
    let Some(mut running) = waiting(&world) else {
        return;
    };
    let pid = running.pid().to_string();
    let args = ["record", "--heap=1", "-p", &pid, "-o", "t"];
    let record = world.start("ferretto", &args);
    until("the recorder listens", || {
        world.path("heap").exists().then_some(())
    });
    use std::io::Write;
    // The program connects at its next allocation after the recording has started.
    until("it is recorded", || {
        let input = running.child().stdin.as_mut().unwrap();
        input.write_all(b"g").unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        maps.contains("memfd:ferretto-heap").then_some(())
    });
    record.signal(Signal::INT);
    record.finish().returned(0);
    drop(running.child().stdin.take());
    running.finish().returned(0);
    let heaps = heaps(&world, "t");
    assert_eq!(heaps.len(), 1);
    let bytes = leaked(&heaps[0], "remember");
    assert!(bytes.is_multiple_of(100) && bytes > 0, "{bytes}");
}

#[test]
fn a_program_started_before_the_profiler_is_refused_with_the_reason() {
    let mut world = World::new();
    let heap = world.path("heap");
    world.set("FERRETTO_HEAP_SOCK_NAME", heap.to_str().unwrap());
    let Some(running) = waiting(&world) else {
        return;
    };
    let pid = running.pid().to_string();
    world
        .run("ferretto", &["record", "--heap", "-p", &pid])
        .returned(1)
        .complained("found no profiler by");
    running.signal(Signal::KILL);
    running.finish().returned(128 + 9);
}

#[test]
fn a_program_without_the_client_is_refused_with_the_reason() {
    let world = World::new();
    let own = std::process::id().to_string();
    world
        .run("ferretto", &["record", "--heap", "-p", &own])
        .returned(1)
        .complained("cannot record the heap of process");
    world
        .run("ferretto", &["record", "--heap"])
        .returned(1)
        .complained("--heap needs a command");
    assert_eq!(world.names(), [""; 0], "no files are left");
}

#[test]
fn a_ring_contains_heaps() {
    let world = World::new();
    if leak(&world).is_none() {
        return;
    }
    let script = "./leak; kill -USR1 $PPID; until [ -s t.0 ]; do sleep 0.05; done";
    let args = [
        "record",
        "--heap=1",
        "--heap-dumps=20ms",
        "--ring",
        "8MB",
        "-o",
        "t",
        "--",
        "sh",
        "-c",
        script,
    ];
    world.run("ferretto", &args).returned(0);
    // The snapshot may be made before the last dump.
    assert!(has_content(&world.path("t.0")).is_some());
    // The program may have ended before its name is read.
    let heaps = world.summary("t").heaps;
    let found = heaps.iter().any(|heap| leaked(heap, "remember") == 100_000);
    assert!(found, "{heaps:?}");
}

/// A program that allocates without end, with the number of threads as argument.
const LOAD: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *load(void *unused) {
    void *slots[512] = {0};
    for (unsigned at = 0;; at++) { free(slots[at % 512]); slots[at % 512] = malloc(at % 3000 + 1); }
}
int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, load, NULL);
    load(NULL);
}
"#;

/// `FERRETTO_HEAP_KILLS=1000 cargo test -p ferretto-cli --test cli heap::` kills the profiler 1000
/// times.
#[test]
fn programs_survive_a_profiler_that_is_killed_while_they_allocate() {
    let count = std::env::var("FERRETTO_HEAP_KILLS").ok();
    let count: u32 = count.and_then(|count| count.parse().ok()).unwrap_or(8);
    let mut world = World::new();
    let Some(program) = world.compile("load", LOAD, &["-O1", "-w", "-pthread"]) else {
        return;
    };
    let heap = world.path("heap");
    world.set("FERRETTO_HEAP_SOCK_NAME", heap.to_str().unwrap());
    let _service = world.start_daemon("traced", &[], "TRACED_NOTIFY_FD");
    world.write(
        "config",
        "buffers { size_kb: 1024 } data_sources { config { name: \"android.heapprofd\"
        heapprofd_config { all: true sampling_interval_bytes: 4096 block_client: true } } }",
    );
    let recording = world.start("perfetto", &["--txt", "-c", "config", "-o", "t"]);
    let library = world.path("libferretto_heap.so");
    let path = library.to_str().unwrap();
    world
        .run("heapprofd", &["--write-library", path])
        .returned(0);
    let mut target: Option<Running> = None;
    let connected = |pid: i32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps.matches("memfd:ferretto-heap").count()
    };
    for round in 0..count {
        let daemon = world.start_daemon("heapprofd", &[], "HEAPPROFD_NOTIFY_FD");
        let target = target.get_or_insert_with(|| {
            let mut command = world.at_home(Command::new(&program));
            command.env("LD_PRELOAD", &library);
            Running::new(command.spawn().unwrap())
        });
        let pid = target.pid();
        let fds = format!("/proc/{pid}/fd");
        let has_socket = || {
            let mut fds = std::fs::read_dir(&fds).ok()?;
            fds.any(|fd| fd.is_ok_and(|fd| fd.file_name().to_str().is_some_and(is_high)))
                .then_some(())
        };
        // Connected to this profiler, since the socket of the previous one was closed.
        until("it is recorded", || {
            (connected(pid) > 0).then(has_socket).flatten()
        });
        daemon.signal(Signal::KILL);
        daemon.finish().returned(128 + 9);
        until("it notices", || has_socket().is_none().then_some(()));
        assert!(
            target.child().try_wait().unwrap().is_none(),
            "round {round}: it has ended"
        );
    }
    println!("killed {count} times");
    let target = target.unwrap();
    target.signal(Signal::KILL);
    target.finish().returned(128 + 9);
    recording.signal(Signal::INT);
    recording.finish().returned(0);
}

/// Returns true for the client's descriptors.
fn is_high(fd: &str) -> bool {
    fd.parse().is_ok_and(|fd: u32| fd >= 700)
}
