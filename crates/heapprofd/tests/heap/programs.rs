//! Dumps compared with the programs' allocations.

use crate::world::{Recorded, World, compiled, every, with_program};

#[test]
fn heap_006_an_interval_of_one_counts_each_byte() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["leak", "500"]));
        let dump = &recorded.dumps()[0];
        let leaked = recorded.sums(dump, "leaked");
        assert_eq!((leaked.allocated, leaked.freed), (150_000, 0));
        assert_eq!((leaked.allocations, leaked.frees), (500, 0));
        let passing = recorded.sums(dump, "passing");
        assert_eq!((passing.allocated, passing.freed), (100_000, 100_000));
        assert_eq!((passing.allocations, passing.frees), (500, 500));
    });
}

#[test]
fn heap_006_samples_add_up_within_three_sigma() {
    with_program(|world| {
        let interval = 4096;
        let is_near = |found: u64, expected: u64| {
            let sigma = ((expected * interval) as f64).sqrt();
            let off = found.abs_diff(expected) as f64 / sigma;
            println!("{found} instead of {expected}, {off} sigma");
            off < 3.0
        };
        // Seeds are random. 0.27 % of recordings exceed 3 sigma for a sum, and 0.54 % for one of
        // the two sums, so three failures in a row have a chance of one in six million.
        let found = (0..3).any(|_| {
            let recorded = world.record(&every(interval), |world| world.run(&["leak", "100000"]));
            let dump = &recorded.dumps()[0];
            let leaked = recorded.sums(dump, "leaked");
            assert_eq!(leaked.freed, 0);
            let passing = recorded.sums(dump, "passing");
            assert_eq!(passing.live(), 0, "all samples were freed");
            // 3 sigma of a leak of this size are less than 5 %.
            is_near(leaked.live(), 30_000_000) && is_near(passing.allocated, 20_000_000)
        });
        assert!(found);
    });
}

#[test]
fn heap_011_all_functions_of_the_allocator_are_balanced() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["family"]));
        let family = recorded.sums(&recorded.dumps()[0], "family");
        // 1000 bytes each, except 1024 for aligned_alloc, a page for pvalloc, and 10 before a
        // realloc.
        assert_eq!(family.allocated, 8 * 1000 + 1024 + 4096 + 10);
        assert_eq!(family.allocations, 11);
        // malloc, realloc, reallocarray, memalign and pvalloc are freed, and the 10 bytes.
        assert_eq!(family.freed, 4 * 1000 + 4096 + 10);
        assert_eq!(family.frees, 6);
    });
}

#[test]
fn heap_012_failed_allocations_change_nothing() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["failing"]));
        let failing = recorded.sums(&recorded.dumps()[0], "failing");
        assert_eq!((failing.allocated, failing.freed), (3000, 0));
    });
}

#[test]
fn heap_011_threads_are_balanced() {
    with_program(|world| {
        let recorded = world.record(&every(2000), |world| world.run(&["threads", "64"]));
        let churn = recorded.sums(&recorded.dumps()[0], "churn");
        let expected = 64.0 * 4000.0 * 250.5;
        let sigma = (expected * 2000.0_f64).sqrt();
        let off = (churn.allocated as f64 - expected).abs();
        // Random sizes add some variance.
        assert!(
            off < 5.0 * sigma,
            "{churn:?} instead of {expected}, sigma {sigma}"
        );
        assert_eq!(churn.live(), 0);
        assert!(!recorded.dumps()[0].has_overrun);
    });
}

#[test]
fn heap_011_allocations_of_signal_handlers_are_balanced() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["signals"]));
        let handler = recorded.sums(&recorded.dumps()[0], "on_signal");
        assert_eq!(handler.allocated, 100 * handler.allocations);
        assert_eq!(handler.live(), 0);
    });
}

#[test]
fn heap_015_the_first_allocation_is_recorded() {
    with_program(|world| {
        let recorded = world.record(&every(1), |world| world.run(&["leak", "1"]));
        let before = recorded.sums(&recorded.dumps()[0], "before_main");
        assert_eq!(before.allocated, 7777);
    });
}

#[test]
fn heap_008_009_010_custom_allocators_are_recorded() {
    with_program(|world| {
        let mut config = every(1);
        config.all_heaps = Some(true);
        let consumer = world.begin(&config);
        let mut target = world.target(&["custom"]);
        target.waits();
        let recorded = crate::world::end(consumer);
        target.goes_on();
        target.ends();
        let custom = recorded.last(target.pid(), "custom");
        let site = recorded.sums(custom, "custom_site");
        assert_eq!((site.allocated, site.freed), (5000, 2000));
        let all = recorded.sums(custom, "");
        assert_eq!(all.allocated, 5000 + 12_345);
        // The 200th heap works like any other.
        let high = recorded
            .dumps()
            .iter()
            .find(|dump| dump.total().allocated.weight == 999);
        assert!(high.is_some());
        assert!(!recorded.last(target.pid(), "libc.malloc").rows().is_empty());
    });
}

#[test]
fn heap_001_without_all_heaps_only_malloc_is_recorded() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let mut target = world.target(&["family"]);
        target.ends();
        let recorded = crate::world::end(consumer);
        assert!(
            recorded
                .dumps()
                .iter()
                .all(|dump| dump.heap == "libc.malloc")
        );
    });
}

#[test]
fn programs_of_other_languages_are_recorded() {
    let world = World::new();
    let recorded = world.record(&every(4096), |world| {
        let mut python = world.command("python3");
        python.args([
            "-c",
            "x = [bytes(100000) for _ in range(300)]; print(len(x))",
        ]);
        match python.output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(_) => println!("skipped: Python is not installed"),
        }
    });
    let total: u64 = recorded
        .dumps()
        .iter()
        .map(|dump| dump.total().allocated.weight)
        .sum();
    assert!(recorded.dumps().is_empty() || total > 30_000_000, "{total}");
}

#[test]
fn operators_new_and_delete_are_balanced() {
    let options = ["-g", "-O1", "-w", "-std=c++17", "-pthread", "-rdynamic"];
    let Some(program) = compiled("heap-target-cc", "target.cc", &options) else {
        println!("skipped: no C++ compiler is installed");
        return;
    };
    let world = World::new();
    let recorded = world.record(&every(1), |world| {
        world.succeeds(&mut world.command(&program))
    });
    let dump = &recorded.dumps()[0];
    let leaked = recorded.sums(dump, "leaked");
    assert_eq!(
        (leaked.allocated, leaked.allocations),
        (10 * (1000 + 500 + 640 + 300), 40)
    );
    assert_eq!(leaked.freed, 0);
    let passing = recorded.sums(dump, "passing");
    assert!(passing.allocations >= 100 * 5, "{passing:?}");
    assert_eq!(passing.live(), 0);
}

#[test]
fn rust_programs_are_recorded_with_the_library_and_with_the_allocator() {
    let world = World::new();
    let check = |recorded: Recorded, what: &str| {
        let dump = &recorded.dumps()[0];
        let leaked = recorded.sums(dump, "target::leaked");
        assert_eq!(
            (leaked.allocated, leaked.allocations),
            (14_000, 20),
            "{what}"
        );
        let passing = recorded.sums(dump, "target::passing");
        assert!(passing.allocated >= 4 * 50 * 5000, "{what}: {passing:?}");
        assert_eq!(passing.live(), 0, "{what}");
    };
    let common = [
        "--edition=2024",
        "--crate-name=target",
        "-g",
        "-Copt-level=1",
    ];
    let Some(plain) = compiled("heap-target-rs", "target.rs", &common) else {
        println!("skipped: rustc is not installed");
        return;
    };
    let recorded = world.record(&every(1), |world| {
        world.succeeds(&mut world.command(&plain))
    });
    check(recorded, "linked dynamically, with the library");
    let client = [
        "--edition=2024",
        "--crate-type=rlib",
        "--crate-name=ferretto_heap",
        "-O",
    ];
    let client = compiled("libferretto_heap.rlib", "../../../heap/src/lib.rs", &client);
    let client = format!(
        "--extern=ferretto_heap={}",
        client.expect("compiled").display()
    );
    for (linked, name) in [
        ("-Ctarget-feature=-crt-static", "heap-target-allocator"),
        ("-Ctarget-feature=+crt-static", "heap-target-static"),
    ] {
        let mut options = common.to_vec();
        options.extend(["--cfg=carries_client", &client, linked]);
        let program = compiled(name, "target.rs", &options).expect("compiled");
        let recorded = world.record(&every(1), |world| {
            let mut command = world.command(&program);
            world.succeeds(command.env_remove("LD_PRELOAD"));
        });
        check(recorded, linked);
    }
}

/// A server with a thread for each request, which keeps the received bodies.
const SERVER: &str = "
import http.server, threading, urllib.request
kept = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append(bytearray(50000))
        self.send_response(200); self.end_headers(); self.wfile.write(b'x' * 20000)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever).start()
def get():
    url = 'http://127.0.0.1:%d/' % server.server_address[1]
    for _ in range(10): assert len(urllib.request.urlopen(url).read()) == 20000
clients = [threading.Thread(target=get) for _ in range(8)]
for client in clients: client.start()
for client in clients: client.join()
server.shutdown()
assert len(kept) == 80
";

#[test]
fn a_server_with_many_threads_is_recorded() {
    let world = World::new();
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: Python is not installed");
        return;
    }
    // Allocations of this size are counted exactly.
    let recorded = world.record(&every(20_000), |world| {
        world.succeeds(world.command("python3").args(["-c", SERVER]));
    });
    let dumps = recorded.dumps().iter();
    let dump = dumps.max_by_key(|dump| dump.total().allocated.weight);
    let dump = dump.expect("a dump");
    assert!(!dump.has_overrun && !dump.is_corrupt);
    let total = dump.total();
    // The kept memory, and the freed bodies.
    assert!(
        total.allocated.weight >= 80 * (50_001 + 20_000),
        "{total:?}"
    );
    assert!(total.freed.weight >= 80 * 20_000, "{total:?}");
}
