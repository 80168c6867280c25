//! Mappings, libraries that come and go, and other allocators.

use crate::world::{compiled, end, every, with_program};

#[test]
fn mappings_are_a_heap_of_their_own_on_request() {
    with_program(|world| {
        let mut config = every(4096);
        config.heaps = vec!["libc.mmap".into()];
        let recorded = world.record(&config, |world| world.run(&["mapped"]));
        let dump = &recorded.dumps()[0];
        assert_eq!(dump.heap, "libc.mmap");
        let mapped = recorded.sums(dump, "mapped");
        assert_eq!(mapped.live(), 7 << 20, "{mapped:?}");
        // The rest of a cut or moved mapping counts as new.
        let once = 1 + 2 + 3 + 1;
        let anew = 2 + 4;
        assert_eq!(mapped.allocated, ((once + anew) << 20) + (1 << 20));
        let without = world.record(&every(1), |world| world.run(&["mapped"]));
        let mut heaps = without.dumps().iter().map(|dump| &*dump.heap);
        assert!(heaps.all(|heap| heap == "libc.malloc"));
    });
}

#[test]
fn libraries_that_replace_others_are_distinguished() {
    with_program(|world| {
        let plugin = |name: &str| {
            let define = format!("-DNAME={name}");
            let options = ["-g", "-O1", "-fno-builtin", "-shared", "-fPIC", &define];
            let built = compiled(&format!("lib{name}.so"), "plugin.c", &options);
            built.expect("compiled").display().to_string()
        };
        let (one, other) = (plugin("one_plugin"), plugin("other_plugin"));
        let recorded = world.record(&every(1), |world| world.run(&["plugins", &one, &other]));
        let dump = &recorded.dumps()[0];
        for name in ["one_plugin", "other_plugin"] {
            let leaked = recorded.sums(dump, name);
            assert_eq!(
                (leaked.allocated, leaked.allocations),
                (150_000, 500),
                "{name}"
            );
        }
    });
}

#[test]
fn the_client_can_be_loaded_late_and_is_not_unloaded() {
    with_program(|world| {
        let mut config = every(1);
        config.all_heaps = Some(true);
        let consumer = world.begin(&config);
        let library = world.library().display().to_string();
        let mut command = world.command(crate::world::program().expect("it is built"));
        command.args(["late-client", &library]);
        world.succeeds(command.env_remove("LD_PRELOAD"));
        let recorded = end(consumer);
        let mut dumps = recorded.dumps().iter();
        let late = dumps.find(|dump| dump.heap == "late").expect("its heap");
        assert_eq!(recorded.sums(late, "").allocated, 1500);
    });
}

#[test]
fn programs_linked_with_symbol_versions_reach_the_client() {
    with_program(|world| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/heap");
        let script = format!("-Wl,--version-script={folder}/versioned.map");
        let options = ["-w", "-shared", "-fPIC", &script];
        let library = compiled("libversioned.so", "versioned.c", &options).expect("compiled");
        let library = library.display().to_string();
        let options = ["-g", "-O1", "-w", "-fno-builtin", "-pthread", "-rdynamic"];
        let libraries = ["-Wl,--no-as-needed", &library, "-lrt", "-ldl"];
        let options = [&options[..], &libraries].concat();
        let program = compiled("heap-target-versioned", "target.c", &options);
        let mut config = every(1);
        config.all_heaps = Some(true);
        let consumer = world.begin(&config);
        let mut command = world.command(program.expect("compiled"));
        command.arg("custom");
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        let mut target = crate::world::Target(command.spawn().expect("it runs"));
        target.waits();
        let recorded = end(consumer);
        target.goes_on();
        target.ends();
        let custom = recorded.last(target.pid(), "custom");
        let site = recorded.sums(custom, "custom_site");
        assert_eq!((site.allocated, site.freed), (5000, 2000));
    });
}

/// Allocators that Linux distributions have as shared libraries.
const ALLOCATORS: [&str; 3] = [
    "libjemalloc.so.2",
    "libtcmalloc_minimal.so.4",
    "libmimalloc.so.2",
];

#[test]
fn other_allocators_are_recorded_too() {
    with_program(|world| {
        for allocator in ALLOCATORS {
            let folders = [
                "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu",
                "/usr/lib64",
                "/usr/lib",
            ];
            let mut paths = folders.iter().map(|folder| format!("{folder}/{allocator}"));
            let Some(path) = paths.find(|path| std::path::Path::new(path).exists()) else {
                println!("skipped: {allocator} is not installed");
                continue;
            };
            let run = |world: &crate::world::World, words: &[&str]| {
                let mut command = world.command(crate::world::program().expect("it is built"));
                let both = format!("{}:{path}", world.library().display());
                world.succeeds(command.args(words).env("LD_PRELOAD", both));
            };
            let recorded = world.record(&every(1), |world| run(world, &["leak", "500"]));
            let dump = &recorded.dumps()[0];
            let leaked = recorded.sums(dump, "leaked");
            assert_eq!(
                (leaked.allocated, leaked.freed),
                (150_000, 0),
                "{allocator}"
            );
            let passing = recorded.sums(dump, "passing");
            assert_eq!(
                (passing.allocated, passing.live()),
                (100_000, 0),
                "{allocator}"
            );
            let recorded = world.record(&every(2000), |world| run(world, &["threads", "16"]));
            let churn = recorded.sums(&recorded.dumps()[0], "churn");
            assert!(churn.allocations > 0, "{allocator}");
            assert_eq!(churn.live(), 0, "{allocator}");
            let recorded = world.record(&every(1), |world| run(world, &["family", "1"]));
            let family = recorded.sums(&recorded.dumps()[0], "family");
            assert_eq!((family.allocations, family.frees), (11, 6), "{allocator}");
        }
    });
}
