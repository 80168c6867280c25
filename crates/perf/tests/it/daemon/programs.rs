//! Tests that sample programs of every kind by real events through the whole profiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::UnwindMode;
use ferretto_proto::perf_events::timebase::Interval;
use tempfile::TempDir;

use crate::daemon::recording::{callstacks, of, record_until};
use crate::daemon::stacks::{Read, perf_samples};
use crate::daemon::target::{Target, compile, source as file};
use crate::daemon::world::{World, config, permitted, source};

/// The number of samples to check.
const ENOUGH: usize = 15;

/// A compiled program in a temporary directory.
struct Built {
    _folder: TempDir,
    path: PathBuf,
}

/// Compiles `programs.c`; `None` if sampling or compiling is impossible.
fn built(flags: &[&str]) -> Option<Built> {
    permitted(|| Some(()))?;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("programs");
    let mut all = vec!["-O1", "-fno-optimize-sibling-calls", "-pthread"];
    all.extend(flags);
    compile("cc", &file("programs.c"), &all, &path)?;
    Some(Built {
        _folder: folder,
        path,
    })
}

/// Returns a config of one process's callstacks, by this unwinding mode.
fn stacks_of(target: &Target, mode: UnwindMode) -> PerfEventConfig {
    let mut perf = callstacks(|sampling, scope| {
        sampling.user_frames = Some(mode);
        scope.target_pid = vec![target.pid() as i32];
    });
    perf.timebase.get_or_insert_default().interval = Some(Interval::Frequency(400));
    perf
}

/// Records until there are enough `wanted` samples of the process; returns all samples.
fn sampled(
    target: &Target,
    mode: UnwindMode,
    what: &str,
    wanted: impl Fn(&Read) -> bool,
) -> Vec<Read> {
    let world = World::new();
    let perf = stacks_of(target, mode);
    let packets = record_until(&world, config(vec![source(&perf)]), what, |packets| {
        let reads = perf_samples(packets);
        of(&reads, target)
            .into_iter()
            .filter(|&read| wanted(read))
            .count()
            >= ENOUGH
    });
    let reads = perf_samples(&packets);
    of(&reads, target).into_iter().cloned().collect()
}

/// Returns the function names, outermost first, without inlined and unnamed ones.
fn functions(read: &Read) -> Vec<&str> {
    let frames = read.stack.iter().flatten();
    frames.map(|frame| &*frame.function).collect()
}

/// Returns true if the callstack contains this chain of calls.
fn calls(read: &Read, chain: &[&str]) -> bool {
    functions(read)
        .windows(chain.len())
        .any(|part| part == chain)
}

/// Returns true if the outermost function is the one that starts threads.
fn begins_in_library(read: &Read) -> bool {
    let first = read.stack.as_ref().and_then(|stack| stack.first());
    read.error().is_none() && first.is_some_and(|frame| frame.mapping.contains("libc"))
}

const CHAIN: [&str; 5] = ["main", "first", "second", "third", "burn"];

#[test]
fn c_without_frame_pointers_by_tables() {
    let Some(program) = built(&["-fomit-frame-pointer"]) else {
        return;
    };
    let target = Target::start(&program.path, &["spin"]);
    let reads = sampled(&target, UnwindMode::UNWIND_DWARF, "samples", |read| {
        calls(read, &CHAIN)
    });
    // In no mode is a callstack truncated, except while the program starts.
    let of_main = reads
        .iter()
        .filter(|read| read.has("main") || read.has("first") || read.has("burn"));
    for read in of_main {
        assert!(read.has("_start") && read.error().is_none(), "{read:?}");
    }
}

/// Unwind tables, frame pointers and the kernel find the same callers in a program with frame
/// pointers.
#[test]
fn perf_049_c_with_frame_pointers_in_each_mode() {
    let flags = ["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"];
    let Some(program) = built(&flags) else { return };
    let target = Target::start(&program.path, &["spin"]);
    let world = World::new();
    let modes = [
        UnwindMode::UNWIND_DWARF,
        UnwindMode::UNWIND_FRAME_POINTER,
        UnwindMode::UNWIND_KERNEL_FRAME_POINTER,
    ];
    let sources = modes.map(|mode| source(&stacks_of(&target, mode)));
    let in_program = |read: &Read| {
        let frames = read.stack.iter().flatten();
        let own = frames.filter(|frame| frame.mapping.ends_with("/programs"));
        own.map(|frame| frame.rel_pc).collect::<Vec<_>>()
    };
    // Callers from `main` inwards, without the sampled function, counted by mode.
    let counted = |reads: &[Read]| {
        let mut modes: BTreeMap<u32, BTreeMap<Vec<u64>, usize>> = BTreeMap::new();
        for read in of(reads, &target) {
            let functions = in_program(read);
            // `_start` is not in the chain of frame pointers: the library that calls `main` has
            // none.
            if let [.., main, first, second, third, _burn] = functions[..] {
                let chain = vec![main, first, second, third];
                *modes
                    .entry(read.sequence)
                    .or_default()
                    .entry(chain)
                    .or_default() += 1;
            }
        }
        modes
    };
    let usual = |seen: &BTreeMap<Vec<u64>, usize>| {
        let most = seen.iter().max_by_key(|(_, times)| **times);
        most.map(|(chain, times)| (chain.clone(), *times))
    };
    let packets = record_until(
        &world,
        config(sources.into()),
        "samples in each mode",
        |packets| {
            let counted = counted(&perf_samples(packets));
            counted.len() == modes.len()
                && counted
                    .values()
                    .all(|seen| usual(seen).is_some_and(|(_, times)| times >= ENOUGH))
        },
    );
    let counted = counted(&perf_samples(&packets));
    let chains: Vec<Vec<u64>> = counted
        .values()
        .filter_map(usual)
        .map(|(chain, _)| chain)
        .collect();
    assert!(
        chains.iter().all(|chain| *chain == chains[0]),
        "{counted:#?}"
    );
}

const RUST: &str = r#"
use std::hint::black_box;
use std::io::Read;
trait Work { fn work(&self, times: u64) -> u64; }
struct Adds(u64);
impl Work for Adds {
    #[inline(never)]
    fn work(&self, times: u64) -> u64 { (0..times).fold(self.0, |sum, i| black_box(sum.wrapping_add(i))) }
}
#[inline(never)]
fn each<F: Fn(u64) -> u64>(count: u64, f: F) -> u64 { let mut sum = 0; for i in 0..count { sum ^= black_box(f(i)); } sum }
fn main() {
    let work: Box<dyn Work + Send> = Box::new(Adds(7));
    std::thread::Builder::new().name("worker".into()).spawn(move || loop {
        black_box(each(10, |i| work.work(100_000 + i)));
    }).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}
"#;

#[test]
fn rust_with_threads_traits_and_closures() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("program.rs");
    std::fs::write(&text, RUST).expect("written");
    let program = folder.path().join("program");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    if compile(&compiler, &text, &["-O", "-Awarnings"], &program).is_none() {
        return;
    }
    let target = Target::start(&program, &[]);
    let is_whole = |read: &Read| {
        let names = functions(read);
        let index_of = |part: &str| names.iter().position(|name| name.contains(part));
        let (each, work) = (index_of("4each"), index_of("Adds"));
        each.is_some() && each < work && begins_in_library(read)
    };
    let reads = sampled(&target, UnwindMode::UNWIND_DWARF, "samples", is_whole);
    let inside = reads
        .iter()
        .filter(|read| functions(read).iter().any(|name| name.contains("Adds")));
    assert!(
        inside
            .clone()
            .all(|read| read.sample.tid != read.sample.pid)
    );
    assert!(inside.clone().all(is_whole));
}

#[test]
fn each_thread_has_its_own_callstack() {
    let Some(program) = built(&[]) else { return };
    let target = Target::start(&program.path, &["threads"]);
    let worked = |read: &Read| calls(read, &["on_thread", "first", "second", "third", "burn"]);
    let reads = sampled(&target, UnwindMode::UNWIND_DWARF, "samples", worked);
    for read in reads.iter().filter(|read| read.has("on_thread")) {
        assert!(
            !read.has("main") && read.sample.tid != read.sample.pid,
            "{read:?}"
        );
        assert!(begins_in_library(read), "{read:?}");
    }
    let tids: std::collections::BTreeSet<_> = reads
        .iter()
        .filter(|read| worked(read))
        .map(|read| read.sample.tid)
        .collect();
    assert_eq!(tids.len(), 2);
}

fn library(folder: &Path) -> Option<PathBuf> {
    let text = folder.join("library.c");
    let burns = "static volatile unsigned long sink; void in_library(void) { for (volatile unsigned long i = 0; i < 500000; i++) sink += i; }";
    std::fs::write(&text, burns).expect("written");
    let library = folder.join("late-library.so");
    compile(
        "cc",
        &text,
        &["-O1", "-shared", "-fPIC", "-fno-omit-frame-pointer"],
        &library,
    )?;
    Some(library)
}

/// A library that is loaded after the first samples is found, also with the kernel's frame
/// pointers.
#[test]
fn perf_035_and_050_a_library_loaded_after_the_first_samples() {
    let Some(program) = built(&["-fno-omit-frame-pointer", "-ldl"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(library) = library(folder.path()) else {
        return;
    };
    let world = World::new();
    let path = library.to_str().expect("a path");
    let mut target = Target::start(&program.path, &["spin", path]);
    let modes = [
        UnwindMode::UNWIND_DWARF,
        UnwindMode::UNWIND_KERNEL_FRAME_POINTER,
    ];
    let mut sources = modes.map(|mode| stacks_of(&target, mode));
    // The state of the process is cleared several times meanwhile.
    sources[1].unwind_state_clear_period_ms = Some(50);
    let sources = sources.iter().map(source).collect();
    let pid = target.pid();
    let is_library = |read: &&Read| {
        let last = read.stack.as_ref().and_then(|stack| stack.last());
        last.is_some_and(|frame| frame.mapping.ends_with("/late-library.so"))
    };
    let has_program = |read: &&Read| {
        let mut frames = read.stack.iter().flatten();
        read.pid() == pid && frames.any(|frame| frame.mapping.ends_with("/programs"))
    };
    let mut is_asked = false;
    let packets = record_until(
        &world,
        config(sources),
        "samples in the library",
        |packets| {
            let reads = perf_samples(packets);
            let by_source = |wanted: &dyn Fn(&&Read) -> bool| {
                let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
                for read in reads.iter().filter(wanted) {
                    *seen.entry(read.sequence).or_default() += 1;
                }
                seen.len() == modes.len() && seen.values().all(|times| *times >= ENOUGH / 2)
            };
            if !is_asked && by_source(&has_program) {
                target.ask();
                is_asked = true;
            }
            by_source(&|read| is_library(read) && has_program(read))
        },
    );
    // Every frame has a mapping.
    let reads = perf_samples(&packets);
    for read in reads.iter().filter(is_library) {
        let frames = read.stack.iter().flatten();
        let mut nowhere =
            frames.filter(|frame| frame.mapping.is_empty() && !frame.function.starts_with("ERROR"));
        assert_eq!(nowhere.next(), None, "{read:?}");
    }
}

#[test]
fn a_signal_handler_is_above_the_interrupted_function() {
    let Some(program) = built(&["-fomit-frame-pointer"]) else {
        return;
    };
    let target = Target::start(&program.path, &["signal"]);
    let within = |read: &Read| {
        let names = functions(read);
        let index_of = |name| names.iter().position(|one| *one == name);
        let (main, interrupted, handler) = (
            index_of("main"),
            index_of("interrupted"),
            index_of("handler"),
        );
        main.is_some() && main < interrupted && interrupted < handler
    };
    let mode = UnwindMode::UNWIND_DWARF;
    let reads = sampled(&target, mode, "samples in handlers", within);
    for read in &reads {
        if read.has("handler") && read.has("burn") {
            assert!(read.has("_start") && read.error().is_none(), "{read:?}");
        }
    }
}

/// 90 calls of 1 KiB each: the stack copy contains 64 of them, and the kernel's callchain the rest.
#[test]
fn deep_recursion_is_unwound_beyond_the_stack_copy() {
    let Some(program) = built(&["-fno-omit-frame-pointer"]) else {
        return;
    };
    let target = Target::start(&program.path, &["deep"]);
    let is_deepest = |read: &Read| {
        let names = functions(read);
        names.iter().filter(|name| **name == "recurse").count() == 91
            && calls(read, &["main", "recurse"])
    };
    let reads = sampled(
        &target,
        UnwindMode::UNWIND_DWARF,
        "deep samples",
        is_deepest,
    );
    let deep: Vec<&Read> = reads.iter().filter(|read| read.has("burn")).collect();
    let cut = deep.iter().filter(|read| !is_deepest(read)).count();
    // At the first and last instructions of a function, it has no frame.
    assert!(cut * 10 <= deep.len(), "{cut} of {}", deep.len());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_generated_at_run_time_are_named_by_their_map() {
    let Some(program) = built(&[]) else { return };
    let target = Target::start(&program.path, &["jit"]);
    let map = format!("/tmp/perf-{}.map", target.pid());
    let named = |read: &Read| calls(read, &["main", "run_made", "made_at_run_time"]);
    let reads =
        std::panic::catch_unwind(|| sampled(&target, UnwindMode::UNWIND_DWARF, "samples", named));
    drop(target);
    std::fs::remove_file(map).expect("the map was written");
    assert!(reads.is_ok());
}

/// Random return addresses and saved registers, and many mappings that change all the time.
#[test]
fn programs_with_corrupt_stacks_and_maps_are_sampled_normally() {
    let Some(program) = built(&[]) else { return };
    let kinds = ["smash", "maps", "spin"];
    let targets = kinds.map(|kind| Target::start(&program.path, &[kind]));
    let world = World::new();
    let perf = callstacks(|sampling, scope| {
        sampling.user_frames = Some(UnwindMode::UNWIND_DWARF);
        scope.target_pid = targets.iter().map(|target| target.pid() as i32).collect();
    });
    let packets = record_until(
        &world,
        config(vec![source(&perf)]),
        "samples of each",
        |packets| {
            let reads = perf_samples(packets);
            let in_place = |target: &Target| {
                of(&reads, target)
                    .iter()
                    .filter(|read| read.has("burn"))
                    .count()
            };
            targets.iter().all(|target| in_place(target) >= ENOUGH)
        },
    );
    let reads = perf_samples(&packets);
    let [smashed, mapped, _] = targets.each_ref().map(|target| of(&reads, target));
    assert!(mapped.iter().any(|read| calls(
        read,
        &["main", "many_maps", "first", "second", "third", "burn"]
    )));
    // An error is reported as the outermost frame, and in the sample.
    assert!(smashed.iter().any(|read| read.error().is_some()));
    for read in smashed {
        let is_error = functions(read)
            .first()
            .is_some_and(|name| name.starts_with("ERROR "));
        assert_eq!(is_error, read.error().is_some(), "{read:?}");
    }
}
