//! Callstacks of real programs of all kinds.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use crate::target::{Target, between, cc, has, names, rustc, unwind};
use ferretto_unwind::{Map, Mode, Process, UnwindError};

/// Functions that call each other, also through a library. The last one loops for ever.
const CHAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
volatile int stop;
__attribute__((noinline)) void leaf(int x) { puts("ready"); fflush(stdout); while (!stop) x++; }
__attribute__((noinline)) void third(int x) { leaf(x + 1); stop++; }
__attribute__((noinline)) void second(int x) { third(x + 1); stop++; }
__attribute__((noinline)) int compare(const void *a, const void *b) { second(*(int *)a); return *(int *)b; }
__attribute__((noinline)) void first(int x) { int array[2] = {x, 2}; qsort(array, 2, sizeof *array, compare); stop++; }
int main(int argc, char **argv) { first(argc); return 0; }
"#;

/// Unwinds at `leaf`, and asserts that the callstack has every function of the chain.
fn assert_whole_chain(flags: &[&str]) {
    let target = Target::c(CHAIN, flags);
    let stopped = target.stop_in("leaf");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    let names = names(&frames);
    assert_eq!(result, Ok(()), "{names:?}");
    assert_eq!(names[..4], ["leaf", "third", "second", "compare"]);
    let rest = between(&names, "compare", "main");
    assert!(rest.contains(&"first"), "{names:?}");
    assert_eq!(names.last().unwrap(), "_start", "{names:?}");
}

#[test]
fn perf_034_unwind_tables_lead_through_libc_to_the_start() {
    assert_whole_chain(&["-O2", "-fomit-frame-pointer"]);
    assert_whole_chain(&["-O0", "-fno-omit-frame-pointer"]);
}

#[test]
fn perf_034_static_programs_and_fixed_addresses_are_unwound() {
    assert_whole_chain(&["-O2", "-no-pie", "-fomit-frame-pointer"]);
    assert_whole_chain(&["-O2", "-static", "-fomit-frame-pointer"]);
    assert_whole_chain(&["-O2", "-static-pie", "-fomit-frame-pointer"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn perf_034_functions_that_align_their_stack_are_unwound() {
    assert_whole_chain(&["-O1", "-mavx2", "-mstackrealign", "-fomit-frame-pointer"]);
}

#[test]
fn perf_049_programs_with_pointer_authentication_are_unwound() {
    for protection in ["standard", "pac-ret", "pac-ret+leaf+b-key"] {
        let protection = format!("-mbranch-protection={protection}");
        assert_whole_chain(&["-O2", "-fomit-frame-pointer", &protection]);
        assert_whole_chain(&["-O0", "-fno-omit-frame-pointer", &protection]);
    }
}

#[test]
fn perf_034_unwind_tables_in_debug_information_are_used() {
    let flags = [
        "-O2",
        "-g",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    let target = Target::c(CHAIN, &flags);
    let stopped = target.stop_in("leaf");
    let (frames, _) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(names(&frames)[..4], ["leaf", "third", "second", "compare"]);
}

#[test]
fn perf_034_frame_addresses_are_valid_for_symbolizers() {
    if !has("addr2line") {
        return;
    }
    for flags in [
        &["-g", "-O1"][..],
        &["-g", "-O1", "-no-pie", "-Wl,-Ttext-segment=0x8800000"],
    ] {
        let target = Target::c(CHAIN, flags);
        let stopped = target.stop_in("leaf");
        let (frames, _) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
        let program = target.folder.path().join("program");
        for (frame, function) in frames.iter().zip(["leaf", "third", "second", "compare"]) {
            let mapping = frame.mapping.as_ref().unwrap();
            assert_eq!(mapping.path, program.to_str().unwrap());
            assert_eq!(mapping.build_id.len(), 20);
            assert_eq!(mapping.start_offset, 0);
            assert_eq!(
                mapping.load_bias,
                if flags.len() > 2 { 0x880_0000 } else { 0 }
            );
            let out = Command::new("addr2line")
                .args(["-f", "-e", program.to_str().unwrap()])
                .arg(format!("{:x}", frame.rel_pc))
                .output()
                .unwrap();
            let text = String::from_utf8(out.stdout).unwrap();
            assert_eq!(text.lines().next().unwrap(), function);
        }
    }
}

/// A program with two executable segments with different load biases.
#[test]
fn perf_034_addresses_in_a_second_executable_segment_are_correct() {
    if !has("addr2line") {
        return;
    }
    let source = CHAIN.replace(
        "void leaf(",
        "__attribute__((section(\".far\"))) void leaf(",
    );
    assert_ne!(source, CHAIN);
    let target = Target::c(
        &source,
        &["-g", "-O1", "-Wl,--section-start=.far=0x5000000"],
    );
    let stopped = target.stop_in("leaf");
    let (frames, _) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    let program = target.folder.path().join("program");
    for (frame, function) in frames.iter().zip(["leaf", "third", "second", "compare"]) {
        assert_eq!(frame.function_name().as_deref(), Some(function));
        let out = Command::new("addr2line")
            .args(["-f", "-e", program.to_str().unwrap()])
            .arg(format!("{:x}", frame.rel_pc))
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(text.lines().next().unwrap(), function);
    }
    assert!(frames[0].rel_pc >= 0x500_0000 && frames[1].rel_pc < 0x500_0000);
}

#[test]
fn perf_034_rust_programs_are_unwound() {
    let source = r#"
        use std::hint::black_box;
        #[inline(never)] fn innermost(x: u64) { println!("ready"); loop { black_box(x); } }
        #[inline(never)] fn with_closure(f: &dyn Fn(u64)) { f(3); black_box(2); }
        fn main() { with_closure(&|x| innermost(black_box(x))); black_box(1); }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "-O",
        "-C",
        "force-unwind-tables=yes",
        "-C",
        "symbol-mangling-version=v0",
    ];
    let Some(program) = rustc(folder.path(), "program", source, &flags) else {
        return;
    };
    let target = Target::start(folder, &program);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let stopped = target.stop();
        let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
        let names = names(&frames);
        assert_eq!(result, Ok(()), "{names:?}");
        assert_eq!(names.last().unwrap(), "_start");
        if names[0].contains("innermost") {
            assert!(
                names.iter().any(|name| name.contains("with_closure")),
                "{names:?}"
            );
            // Names are mangled as in the file.
            assert!(names[0].starts_with("_R"), "{names:?}");
            break;
        }
        assert!(std::time::Instant::now() < deadline);
    }
}

#[test]
fn perf_034_callstacks_of_threads_end_at_their_start() {
    let source = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        volatile int stop;
        __attribute__((noinline)) void spin(void) { printf("%d\n", gettid()); fflush(stdout); while (!stop); }
        void *thread(void *x) { spin(); stop++; return x; }
        int main() { pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0); }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let program = cc(folder.path(), "program", source, &["-O2", "-pthread"]);
    let (target, tid) = Target::start_with_line(folder, &program);
    let stopped = target.stop_thread_in(tid.parse().unwrap(), "spin");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Ok(()), "{:?}", names(&frames));
    assert_eq!(names(&frames)[..2], ["spin", "thread"]);
    assert!(
        frames.len() >= 4,
        "through the library: {:?}",
        names(&frames)
    );
}

#[test]
fn perf_034_code_of_the_vdso_is_unwound() {
    let source = r#"
        #include <stdio.h>
        #include <time.h>
        volatile int stop;
        __attribute__((noinline)) void ask(void) { struct timespec t; while (!stop) clock_gettime(CLOCK_MONOTONIC, &t); }
        int main() { puts("ready"); fflush(stdout); ask(); return stop; }
    "#;
    let target = Target::c(source, &["-O2"]);
    let function = if cfg!(target_arch = "aarch64") {
        "__kernel_clock_gettime"
    } else {
        "__vdso_clock_gettime"
    };
    let stopped = target.stop_in(function);
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    let names = names(&frames);
    assert_eq!(result, Ok(()), "{names:?}");
    assert!(names.iter().any(|name| name == "ask"), "{names:?}");
    let mapping = frames[0].mapping.as_ref().unwrap();
    assert_eq!(mapping.path, "[vdso]");
    assert_eq!(mapping.build_id.len(), 20);
}

/// A signal arrives in `interrupted`. The handler prints the interrupted address in hexadecimal.
const SIGNAL: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __aarch64__
#define INTERRUPTED(uc) (uc)->uc_mcontext.pc
#define RETURN "mov x8, #139\nsvc #0\n"
#else
#define INTERRUPTED(uc) (uc)->uc_mcontext.gregs[REG_RIP]
#define RETURN "mov $15,%rax\nsyscall\n"
#endif
volatile int stop, in_handler;
__attribute__((noinline)) void spin(void) { while (!stop); }
void handler(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    printf("%llx\n", INTERRUPTED(uc)); fflush(stdout);
    spin(); in_handler++;
}
__attribute__((noinline)) void interrupted(void) { while (!in_handler); }
#ifdef OWN_RESTORER
void restorer(void);
__asm__(".text\n.type restorer,@function\nrestorer: " RETURN ".size restorer,.-restorer\n");
struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action =
    {handler, SA_SIGINFO | 0x04000000, restorer, 0};
void install(void) { syscall(SYS_rt_sigaction, SIGALRM, &action, 0, 8); }
#else
char other_stack[65536];
void install(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
#ifdef OTHER_STACK
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, 0);
    action.sa_flags |= SA_ONSTACK;
#endif
    sigaction(SIGALRM, &action, 0);
}
#endif
int main() {
    struct itimerval timer = {.it_value.tv_usec = 50000};
    install(); setitimer(ITIMER_REAL, &timer, 0);
    interrupted(); return 0;
}
"#;

#[test]
fn perf_034_signal_frames_have_the_interrupted_address() {
    for flags in [
        &["-O2"][..],
        &["-O2", "-DOTHER_STACK"],
        &["-O2", "-DOWN_RESTORER"],
        &["-O1", "-static", "-fno-omit-frame-pointer"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = cc(folder.path(), "program", SIGNAL, flags);
        let (target, address) = Target::start_with_line(folder, &program);
        let address = u64::from_str_radix(&address, 16).unwrap();
        let stopped = target.stop_in("spin");
        let has_pointers = flags.contains(&"-fno-omit-frame-pointer");
        let modes = [Mode::Dwarf, Mode::FramePointer];
        for mode in &modes[..1 + usize::from(has_pointers)] {
            let (frames, result) = unwind(&mut target.process(), &stopped.sample(), *mode);
            let names = names(&frames);
            assert_eq!(names[..2], ["spin", "handler"], "{flags:?}");
            assert_eq!(
                names[3..5],
                ["interrupted", "main"],
                "{flags:?} {mode:?} {names:?}"
            );
            let mapping = frames[3].mapping.as_ref().unwrap();
            let exact = address - mapping.start + mapping.exact_offset + mapping.load_bias;
            assert_eq!(frames[3].rel_pc, exact, "the interrupted instruction");
            if *mode == Mode::Dwarf {
                assert_eq!(result, Ok(()), "{flags:?} {names:?}");
                assert_eq!(names.last().unwrap(), "_start", "{flags:?} {names:?}");
            }
        }
    }
}

const LIBRARY: &str = "
void back(void);
extern volatile int stop;
void in_library(void) { back(); stop++; }
";

const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
volatile int stop;
__attribute__((noinline)) void spin(int x) { puts("spins"); fflush(stdout); while (stop != x); }
void back(void) { spin(1); }
int main() {
    puts("ready"); fflush(stdout); getchar();
    void *library = dlopen("./library.so", RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    ((void (*)(void))dlsym(library, "in_library"))();
    return 0;
}
"#;

#[test]
fn perf_035_libraries_loaded_later_are_found_by_reading_the_maps_again() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-shared", "-fPIC"];
    cc(folder.path(), "library.so", LIBRARY, &flags);
    let program = cc(folder.path(), "program", LOADER, &["-O1", "-rdynamic"]);
    let mut target = Target::start(folder, &program);
    let [mut process, mut other] = [(); 2].map(|()| {
        let mut process = target.process();
        let (frames, result) = unwind(&mut process, &target.stop().sample(), Mode::Dwarf);
        assert_eq!(result, Ok(()), "{:?}", names(&frames));
        process
    });
    target.go();
    let stopped = target.stop_in("spin");

    // With a truncated stack the address may be anything, so the maps are not read again.
    let mut sample = stopped.sample();
    sample.stack_full = true;
    let (frames, result) = unwind(&mut other, &sample, Mode::Dwarf);
    assert_eq!(result, Err(UnwindError::InvalidMap), "{:?}", names(&frames));
    assert_eq!(names(&frames), ["spin", "back", "ERROR INVALID_MAP"]);

    let (frames, result) = unwind(&mut process, &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Ok(()), "{:?}", names(&frames));
    assert_eq!(names(&frames)[..4], ["spin", "back", "in_library", "main"]);
}

#[test]
fn perf_034_deleted_programs_are_unwound() {
    let target = Target::c(CHAIN, &["-O2"]);
    let stopped = target.stop_in("leaf");
    let program = target.folder.path().join("program");
    fs::remove_file(&program).unwrap();
    // Another file of that name is not used.
    fs::copy("/bin/true", &program).unwrap();
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Ok(()), "{:?}", names(&frames));
    assert!(
        names(&frames)
            .iter()
            .any(|name| name == "_start" || name == "main"),
        "{:?}",
        names(&frames)
    );
    let path = &frames[0].mapping.as_ref().unwrap().path;
    assert!(path.ends_with("program (deleted)"), "{path}");
}

// On arm64, libraries have one segment for headers and code.
#[cfg(target_arch = "x86_64")]
#[test]
fn perf_034_a_library_within_another_file_is_unwound() {
    // As with an archive, the program maps a library from the middle of a file.
    let source = r#"
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            unsigned offset, at, size;
            int file = open("archive", O_RDONLY);
            FILE *about = fopen("about", "r");
            if (fscanf(about, "%u %u %u", &offset, &at, &size) != 3) return 1;
            char *base = mmap(0, size, PROT_READ, MAP_PRIVATE, file, offset);
            mmap(base + 4096, size - 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, offset + 4096);
            puts("ready"); fflush(stdout);
            ((int (*)(volatile int *))(base + at))((volatile int[]){1});
        }
    "#;
    let library =
        "__attribute__((noinline)) static int inside(volatile int *x) { while (*x); return 7; }
        int outside(volatile int *x) { return inside(x) + *x; }";
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "-O1",
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-Wl,-soname,libinner.so",
    ];
    let built = fs::read(cc(folder.path(), "inner.so", library, &flags)).unwrap();
    let elf = ferretto_elf::Elf::open(built.clone(), 0).unwrap();
    let outside = elf.symbols().iter().find(|symbol| symbol.2 == "outside");
    let about = format!("8192 {} {}", outside.unwrap().0, built.len() / 4096 * 4096);
    fs::write(folder.path().join("about"), about).unwrap();
    fs::write(
        folder.path().join("archive"),
        [vec![0; 8192], built].concat(),
    )
    .unwrap();
    let program = cc(folder.path(), "program", source, &["-O1"]);
    let target = Target::start(folder, &program);
    let stopped = target.stop_in("inside");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(names(&frames)[..3], ["inside", "outside", "main"]);
    assert_eq!(result, Ok(()));
    let mapping = frames[0].mapping.as_ref().unwrap();
    assert_eq!(
        (mapping.exact_offset, mapping.start_offset),
        (8192 + 4096, 8192)
    );
    assert!(
        mapping.path.ends_with("/archive!libinner.so"),
        "{}",
        mapping.path
    );
    assert_eq!(elf.symbols().lookup(frames[0].rel_pc).unwrap().0, "inside");
}

// On arm64, frame pointers are always valid, and thus preferred to the register with the return
// address.
#[cfg(target_arch = "x86_64")]
#[test]
fn perf_034_frameless_code_without_tables_is_unwound() {
    // As in the C library's function that creates a thread, the table ends before the system call.
    let source = r#"
        #include <stdio.h>
        long bare(long number);
        __asm__(".text\n.type bare,@function\nbare: mov %rdi,%rax\nsyscall\nret\n.size bare,.-bare\n");
        volatile int stop;
        __attribute__((noinline)) void waits(void) { char frame[500]; frame[3] = stop; bare(34); stop += frame[3]; }
        int main() { puts("ready"); fflush(stdout); waits(); return stop; }
    "#;
    let flags = ["-O2", "-fomit-frame-pointer"];
    let target = Target::c(source, &flags);
    let mut stopped = target.stop_in("bare");
    for fp in [None, Some(1), Some(stopped.registers.sp() + 64)] {
        if let Some(fp) = fp {
            stopped.registers.set(6, fp);
        }
        let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
        assert_eq!(result, Ok(()), "{:?}", names(&frames));
        assert_eq!(names(&frames)[..3], ["bare", "waits", "main"]);
        assert_eq!(names(&frames).last().unwrap(), "_start");
    }
}

#[test]
fn perf_029_a_process_that_is_gone_is_unwound_from_known_maps() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        volatile int stop;
        __attribute__((noinline)) void bottom(void) { puts("ready"); fflush(stdout); while (!stop); }
        __attribute__((noinline)) int compare(const void *a, const void *b) { bottom(); return *(int *)a - *(int *)b; }
        int main() { int numbers[] = {2, 1}; qsort(numbers, 2, sizeof(int), compare); return stop; }
    "#;
    let mut target = Target::c(source, &["-O1", "-fomit-frame-pointer"]);
    let stopped = target.stop_in("bottom");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Ok(()));
    let expected = names(&frames);
    assert_eq!(expected[..2], ["bottom", "compare"]);
    let maps = fs::File::open(format!("/proc/{}/maps", target.pid())).unwrap();
    let mut maps = Map::read_all(&maps).unwrap();
    maps.retain(|map| map.executable);
    // The process ends; its files stay.
    target.end();
    let root = Arc::new(fs::File::open("/").unwrap().into());
    let mut process = Process::gone(u32::MAX, maps.clone(), vec![Arc::clone(&root)]);
    let (frames, result) = unwind(&mut process, &stopped.sample(), Mode::Dwarf);
    assert_eq!((names(&frames), result), (expected, Ok(())));
    // Another file of that name is not used.
    let program = target.folder.path().join("program");
    let copy = target.folder.path().join("copy");
    fs::copy(&program, &copy).unwrap();
    fs::rename(&copy, &program).unwrap();
    let mut process = Process::gone(u32::MAX, maps, vec![root]);
    let (frames, _) = unwind(&mut process, &stopped.sample(), Mode::Dwarf);
    assert_eq!(names(&frames)[0], "?");
}
