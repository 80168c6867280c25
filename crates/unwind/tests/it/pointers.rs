//! Frame pointers and the kernel's chain, alone and combined with unwind tables.

use crate::target::{POINTERS, Target, cc, names, unwind};
use ferretto_unwind::{Cache, Frame, Mode, StackCopy};

const KEPT: &str = "-fno-omit-frame-pointer";

/// Functions without local variables, so the caller's frame is directly above.
const SMALL: &str = r#"
#include <stdio.h>
volatile int stop, sum;
__attribute__((noinline)) void leaf(void) { sum++; }
__attribute__((noinline)) void third(void) { leaf(); sum++; }
__attribute__((noinline)) void second(void) { third(); sum++; }
__attribute__((noinline)) void first(void) { second(); sum++; }
int main() { puts("ready"); fflush(stdout); while (!stop) first(); return 0; }
"#;

fn until_main(frames: &[Frame]) -> Vec<(String, u64)> {
    let names = names(frames);
    let main = names.iter().position(|name| name == "main");
    let end = main.map_or(names.len(), |main| main + 1);
    names
        .into_iter()
        .zip(frames.iter().map(|frame| frame.rel_pc))
        .take(end)
        .collect()
}

#[test]
fn perf_049_frame_pointers_and_tables_agree_at_each_instruction() {
    let target = Target::c(SMALL, &["-O1", KEPT]);
    // Steps past the output.
    target.stop_in("leaf");
    let mut process = target.process();
    let cache = Cache::new();
    let mut steps = 0;
    let mut leaves = 0;
    target.step(|stopped| {
        let [tables, pointers] = [Mode::Dwarf, Mode::FramePointer].map(|mode| {
            let mut frames = Vec::new();
            let _ = process.unwind(&cache, &stopped.sample(), mode, &mut frames);
            until_main(&frames)
        });
        assert_eq!(tables, pointers);
        assert_eq!(tables.last().unwrap().0, "main");
        leaves += u32::from(tables[0].0 == "leaf");
        steps += 1;
        steps < 200
    });
    assert!(leaves > 10);
}

#[test]
fn perf_049_at_least_the_sampled_function_is_found() {
    let target = Target::c(SMALL, &["-O1", "-fomit-frame-pointer"]);
    let mut stopped = target.stop_in("leaf");
    for fp in [0, 1, 8, u64::MAX - 7, stopped.registers.sp() - 16] {
        stopped.registers.set(POINTERS.0, fp);
        let mode = Mode::FramePointer;
        let (frames, result) = unwind(&mut target.process(), &stopped.sample(), mode);
        assert_eq!(result, Ok(()), "{:?}", names(&frames));
        assert_eq!(names(&frames)[0], "leaf");
        assert_eq!(names(&frames)[1], "third", "the table gives the caller");
    }
}

// Only instructions of x86-64 show whether the frame is set up.
#[cfg(target_arch = "x86_64")]
#[test]
fn perf_049_code_without_tables_is_unwound_by_its_instructions() {
    let flags = [
        "-O0",
        KEPT,
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    let target = Target::c(SMALL, &flags);
    target.stop_in("leaf");
    let mut process = target.process();
    let cache = Cache::new();
    let mut steps = 0;
    let mut entries = 0;
    target.step(|stopped| {
        for mode in [Mode::FramePointer, Mode::Dwarf] {
            let mut frames = Vec::new();
            let _ = process.unwind(&cache, &stopped.sample(), mode, &mut frames);
            let names: Vec<_> = until_main(&frames)
                .into_iter()
                .map(|found| found.0)
                .collect();
            let chain = ["leaf", "third", "second", "first", "main"];
            assert!(
                chain.ends_with(&names.iter().map(String::as_str).collect::<Vec<_>>()),
                "{mode:?} {names:?}"
            );
            entries += u32::from(names.len() == 5);
        }
        steps += 1;
        steps < 100
    });
    assert!(entries > 5);
}

#[test]
fn perf_050_the_kernels_chain_is_named_by_the_maps() {
    let target = Target::c(SMALL, &["-O1", KEPT]);
    let stopped = target.stop_in("third");
    let chain = stopped.chain(127);
    let sample = StackCopy {
        registers: None,
        stack: &[],
        stack_full: false,
        user_chain: &chain,
    };
    let mut process = target.process();
    let (frames, result) = unwind(&mut process, &sample, Mode::KernelChain);
    assert_eq!(result, Ok(()));
    let expected = unwind(&mut target.process(), &stopped.sample(), Mode::FramePointer).0;
    assert_eq!(until_main(&frames).last().unwrap().0, "main");
    assert_eq!(
        frames[0].rel_pc, expected[0].rel_pc,
        "the innermost address is the sampled one"
    );

    // All names are found again after the caches are cleared.
    process.clear();
    let (again, _) = unwind(&mut process, &sample, Mode::KernelChain);
    assert_eq!(until_main(&again), until_main(&frames));
}

#[test]
fn perf_050_unmapped_addresses_are_frames_without_mapping() {
    let target = Target::c(SMALL, &["-O1", KEPT]);
    let sample = StackCopy {
        registers: None,
        stack: &[],
        stack_full: false,
        // The second is a context marker.
        user_chain: &[0x1000, -512_i64 as u64, 0x2001],
    };
    let (frames, result) = unwind(&mut target.process(), &sample, Mode::KernelChain);
    assert_eq!(result, Ok(()));
    let found: Vec<_> = frames
        .iter()
        .map(|frame| (frame.mapping.is_none(), frame.rel_pc))
        .collect();
    // Within the call, whose size is that of an instruction on arm64.
    let call = if cfg!(target_arch = "aarch64") { 4 } else { 1 };
    assert_eq!(found, [(true, 0x1000), (true, 0x2001 - call)]);
}

#[test]
fn perf_050_a_library_loaded_later_is_found_for_the_kernels_chain() {
    let library = "void back(void); extern volatile int stop;
        __attribute__((noinline)) void in_library(void) { back(); stop++; }";
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        volatile int stop;
        __attribute__((noinline)) void spin(int x) { puts("spins"); fflush(stdout); while (stop != x); }
        void back(void) { spin(1); stop++; }
        int main() {
            puts("ready"); fflush(stdout); getchar();
            void *library = dlopen("./library.so", RTLD_NOW);
            if (!library) { puts(dlerror()); return 1; }
            ((void (*)(void))dlsym(library, "in_library"))(); stop++;
            return 0;
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    cc(
        folder.path(),
        "library.so",
        library,
        &["-O1", KEPT, "-shared", "-fPIC"],
    );
    let program = cc(
        folder.path(),
        "program",
        source,
        &["-O1", KEPT, "-rdynamic"],
    );
    let mut target = Target::start(folder, &program);
    let mut process = target.process();
    let chain = |chain| StackCopy {
        registers: None,
        stack: &[],
        stack_full: false,
        user_chain: chain,
    };
    let before = target.stop().chain(127);
    let (frames, _) = unwind(&mut process, &chain(&before[..1]), Mode::KernelChain);
    assert!(frames[0].mapping.is_some());
    target.go();
    let after = target.stop_in("spin").chain(127);
    let (frames, _) = unwind(&mut process, &chain(&after), Mode::KernelChain);
    assert_eq!(names(&frames)[..4], ["spin", "back", "in_library", "main"]);
}

/// A recursion whose stack is larger than the copied part.
const DEEP: &str = r#"
#include <stdio.h>
#include <signal.h>
#include <string.h>
volatile int stop, go;
void on_signal(int number) { go = number; }
__attribute__((noinline)) void bottom(void) { puts("bottom"); fflush(stdout); while (!go); }
__attribute__((noinline)) int dive(int n) {
    char frame[2000];
    memset(frame, n, sizeof frame);
    if (n) dive(n - 1); else bottom();
    return frame[n];
}
__attribute__((noinline)) void other(void) { char frame[200000]; memset(frame, 0x41, sizeof frame); __asm__ volatile("" :: "r"(frame) : "memory"); puts("other"); fflush(stdout); while (!stop) stop = frame[3] == 1; }
int main() { signal(SIGUSR1, on_signal); dive(99); other(); return 0; }
"#;

const DEPTH: usize = 100;
const COPIED: usize = 16 << 10;

/// Returns the number of frames of `dive`, and true if `main` follows the last.
fn dives(frames: &[Frame]) -> (usize, bool) {
    let names = names(frames);
    let count = names.iter().filter(|name| *name == "dive").count();
    let last = names.iter().rposition(|name| name == "dive");
    let main = last.and_then(|last| names.get(last + 1));
    (count, main.is_some_and(|name| name == "main"))
}

#[test]
fn perf_034_the_kernels_chain_continues_after_the_copied_stack() {
    let mut target = Target::c(DEEP, &["-O1", KEPT]);
    let stopped = target.stop_in("bottom");
    let chain = stopped.chain(127);
    let cut = StackCopy {
        stack: &stopped.stack[..COPIED],
        stack_full: true,
        ..stopped.sample()
    };
    let spliced = StackCopy {
        user_chain: &chain,
        ..cut
    };
    let mut process = target.process();

    // The memory is unchanged: it leads to the start of the program, which the chain lacks.
    let (frames, result) = unwind(&mut process, &spliced, Mode::Dwarf);
    assert_eq!(result, Ok(()), "{:?}", names(&frames));
    assert_eq!(dives(&frames), (DEPTH, true), "{:?}", names(&frames));
    assert_eq!(names(&frames).last().unwrap(), "_start");
    let whole = unwind(&mut process, &stopped.sample(), Mode::Dwarf).0;
    let addresses = |frames: &[Frame]| frames.iter().map(|frame| frame.rel_pc).collect::<Vec<_>>();
    assert_eq!(addresses(&frames), addresses(&whole));
    for mode in [Mode::FramePointer, Mode::Dwarf] {
        let (frames, _) = unwind(&mut process, &spliced, mode);
        assert_eq!(
            dives(&frames),
            (DEPTH, true),
            "{mode:?} {:?}",
            names(&frames)
        );
    }

    // The memory has other frames by now: only the kernel's chain is from the time of the sample.
    assert_eq!(target.signal(), "other");
    target.stop_in("other");
    let (frames, result) = unwind(&mut process, &cut, Mode::Dwarf);
    assert_ne!(dives(&frames), (DEPTH, true), "{:?}", names(&frames));
    assert!(result.is_err());
    let (frames, result) = unwind(&mut process, &spliced, Mode::Dwarf);
    assert_eq!(result, Ok(()));
    assert_eq!(dives(&frames), (DEPTH, true), "{:?}", names(&frames));
    assert_eq!(addresses(&frames[..DEPTH]), addresses(&whole[..DEPTH]));
}

#[test]
fn perf_034_the_chain_continues_when_the_process_is_gone() {
    let target = Target::c(DEEP, &["-O1", KEPT]);
    let stopped = target.stop_in("bottom");
    let chain = stopped.chain(127);
    let mut process = target.process();
    let _ = unwind(&mut process, &stopped.sample(), Mode::Dwarf);
    drop(target);
    let spliced = StackCopy {
        stack: &stopped.stack[..COPIED],
        stack_full: true,
        user_chain: &chain,
        ..stopped.sample()
    };
    let (frames, result) = unwind(&mut process, &spliced, Mode::Dwarf);
    assert_eq!(result, Ok(()));
    assert_eq!(dives(&frames), (DEPTH, true), "{:?}", names(&frames));
}
