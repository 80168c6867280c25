//! Hostile targets: arbitrary stacks, maps, files and tables.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use crate::target::{POINTERS, Target, cc, names, unwind};
use ferretto_testing::Random;
use ferretto_unwind::{Cache, Frame, Machine, Mode, Process, Registers, StackCopy, UnwindError};

const RECURSION: &str = r#"
#include <stdio.h>
volatile int stop, depth = DEPTH;
__attribute__((noinline)) void bottom(void) { puts("ready"); fflush(stdout); while (!stop); }
__attribute__((noinline)) int dive(int n) { if (n) dive(n - 1); else bottom(); return stop + n; }
int main() { return dive(depth); }
"#;

#[test]
fn perf_036_the_outermost_frame_names_the_error() {
    let target = Target::c(RECURSION, &["-O1", "-DDEPTH=3000"]);
    let stopped = target.stop_in("bottom");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Err(UnwindError::MaxFramesExceeded));
    assert_eq!(result.unwrap_err().code(), 6);
    assert_eq!(frames.len(), Process::MAX_FRAMES + 1);
    let (last, found) = frames.split_last().unwrap();
    assert_eq!(
        last.function_name().as_deref(),
        Some("ERROR MAX_FRAME_EXCEEDED")
    );
    assert!(last.mapping.is_none());
    assert!(found.iter().all(|frame| frame.mapping.is_some()));
}

// On arm64, tables are relative to the stack pointer, which no cycle moves back.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_walk_of_a_cyclic_stack_ends() {
    let target = Target::c(RECURSION, &["-O1", "-fno-omit-frame-pointer", "-DDEPTH=9"]);
    let mut stopped = target.stop_in("bottom");
    let sp = stopped.registers.sp();
    let chain = stopped.chain(5);
    let within_dive = chain[2];
    for lengths in [&[1][..], &[2, 1], &[5, 3, 2, 7]] {
        // Two frames that are each other's callers.
        let at = |index: usize| sp as usize + 512 + 64 * lengths[..index].iter().sum::<usize>();
        for index in 0..lengths.len() {
            let next = at((index + 1) % lengths.len()) as u64;
            let offset = at(index) - sp as usize;
            stopped.stack[offset..offset + 8].copy_from_slice(&next.to_le_bytes());
            stopped.stack[offset + 8..offset + 16].copy_from_slice(&within_dive.to_le_bytes());
        }
        stopped.registers.set(POINTERS.0, at(0) as u64);
        stopped.registers.set_pc(within_dive);
        let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
        assert_eq!(
            result,
            Err(UnwindError::RepeatedFrame),
            "{:?}",
            names(&frames)
        );
        assert!(frames.len() < 30, "{}", frames.len());
        let (frames, _) = unwind(&mut target.process(), &stopped.sample(), Mode::FramePointer);
        assert!(
            frames.len() < 30,
            "frames only lead outwards: {}",
            frames.len()
        );
    }
}

#[test]
fn arbitrary_stacks_and_registers_never_panic() {
    let target = Target::c(RECURSION, &["-O1", "-DDEPTH=50"]);
    let stopped = target.stop_in("bottom");
    let mut process = target.process();
    let cache = Cache::new();
    let mut numbers = Random(7);
    let chain = stopped.chain(10);
    for round in 0..300 {
        let mut stack = stopped.stack.clone();
        let mut registers = stopped.registers;
        for _ in 0..numbers.next() % 20 {
            let at = (numbers.next() as usize % stack.len()) & !7;
            let value = match numbers.next() % 5 {
                0 => numbers.next(),
                1 => registers.sp().wrapping_add(numbers.next() % 4096),
                2 => chain[0] + numbers.next() % 256,
                3 => u64::MAX - numbers.next() % 64,
                _ => 0,
            };
            let end = (at + 8).min(stack.len());
            stack[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            if round % 3 == 0 {
                registers.set(numbers.next() as usize % 16, value);
            }
            if round % 7 == 0 {
                registers.set_pc(value);
            }
        }
        stack.truncate(numbers.next() as usize % stack.len());
        let sample = StackCopy {
            registers: Some(&registers),
            stack: &stack,
            stack_full: round % 2 == 0,
            user_chain: &chain[..numbers.next() as usize % chain.len()],
        };
        for mode in [Mode::Dwarf, Mode::FramePointer, Mode::KernelChain] {
            let mut frames = Vec::new();
            let result = process.unwind(&cache, &sample, mode, &mut frames);
            assert!(frames.len() <= Process::MAX_FRAMES + 1);
            if result.is_err() {
                assert!(frames.last().unwrap().mapping.is_none());
            }
            let _ = names(&frames);
        }
    }
}

/// A process whose maps say that `file` is at this address.
const BASE: u64 = 0x5000_0000;

fn process_of(folder: &Path, file: &Path, size: u64) -> Process {
    let stat = fs::metadata(file).unwrap();
    let (major, minor) = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    let maps = folder.join("maps");
    let text = format!(
        "{BASE:x}-{:x} r-xp 00000000 {major:02x}:{minor:02x} {} {}\n",
        BASE + size,
        stat.ino(),
        file.display()
    );
    fs::write(&maps, text).unwrap();
    let memory = folder.join("memory");
    fs::write(&memory, b"").unwrap();
    Process::new(
        std::process::id(),
        File::open(maps).unwrap(),
        File::open(memory).unwrap(),
    )
}

/// Returns registers at `offset` of the file, and a stack of return addresses all over the file.
fn sample_at(offset: u64, size: u64) -> (Registers, Vec<u8>) {
    let mut registers = Registers::new(Machine::NATIVE);
    registers.set_pc(BASE + offset);
    registers.set(POINTERS.1, 0x7000_0000);
    registers.set(POINTERS.0, 0x7000_0040);
    let stack = (0..512_u64).flat_map(|index| (BASE + index * 97 % size).to_le_bytes());
    (registers, stack.collect())
}

fn unwind_in(
    process: &mut Process,
    cache: &Cache,
    offset: u64,
    size: u64,
) -> (Vec<Frame>, Result<(), UnwindError>) {
    let (registers, stack) = sample_at(offset, size);
    let sample = StackCopy {
        registers: Some(&registers),
        stack: &stack,
        stack_full: false,
        user_chain: &[],
    };
    let mut frames = Vec::new();
    let result = process.unwind(cache, &sample, Mode::Dwarf, &mut frames);
    (frames, result)
}

#[test]
fn fifos_devices_and_folders_in_maps_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::RWXU;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    for path in [
        &fifo,
        Path::new("/dev/zero"),
        folder.path(),
        Path::new("/proc/kmsg"),
    ] {
        let mut process = process_of(folder.path(), path, 0x10000);
        let (frames, result) = unwind_in(&mut process, &Cache::new(), 0x1000, 0x10000);
        assert_eq!(result, Err(UnwindError::UnwindInfo), "{}", path.display());
        let mapping = frames[0].mapping.as_ref().unwrap();
        assert_eq!(mapping.path, path.to_str().unwrap());
        assert_eq!((mapping.load_bias, mapping.build_id.len()), (0, 0));
        assert_eq!(frames[0].rel_pc, 0x1000);
    }
}

#[test]
fn a_file_that_is_not_the_mapped_one_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-DDEPTH=3"];
    let file = cc(folder.path(), "program", RECURSION, &flags);
    let mut process = process_of(folder.path(), &file, 0x10000);
    let (frames, _) = unwind_in(&mut process, &Cache::new(), 0x1200, 0x10000);
    assert_eq!(frames[0].mapping.as_ref().unwrap().build_id.len(), 20);

    let mut process = process_of(folder.path(), &file, 0x10000);
    let copy = folder.path().join("copy");
    fs::copy(&file, &copy).unwrap();
    fs::rename(copy, &file).unwrap();
    let (frames, result) = unwind_in(&mut process, &Cache::new(), 0x1200, 0x10000);
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    assert_eq!(frames[0].mapping.as_ref().unwrap().build_id.len(), 0);
}

/// Returns the header of a section and its offset in the file.
fn header_of(file: &Path, name: &str) -> (u64, ferretto_elf::SectionHeader) {
    let bytes = fs::read(file).unwrap();
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    let elf = ferretto_elf::Elf::open(bytes, 0).unwrap();
    let header = elf.section_header(name).unwrap();
    let index = elf.sections().iter().position(|section| section == header);
    (table + 64 * index.unwrap() as u64, header.clone())
}

#[test]
fn huge_tables_are_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let file = cc(folder.path(), "program", RECURSION, &["-O1", "-DDEPTH=3"]);
    let (at, _) = header_of(&file, ".eh_frame");
    let handle = fs::OpenOptions::new().write(true).open(&file).unwrap();
    handle.set_len(1 << 40).unwrap();
    handle
        .write_all_at(&(1_u64 << 39).to_le_bytes(), at + 32)
        .unwrap();
    let mut process = process_of(folder.path(), &file, 0x10000);
    let cache = Cache::new();
    let (frames, result) = unwind_in(&mut process, &cache, 0x1200, 0x10000);
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    assert!(frames[0].mapping.is_some());
    assert_eq!(cache.table_bytes(), 0);
}

// On arm64, a function without a table may have its return address in a register.
#[cfg(target_arch = "x86_64")]
#[test]
fn tables_share_the_memory_limit() {
    let target = Target::c(RECURSION, &["-O1", "-DDEPTH=5"]);
    let stopped = target.stop_in("bottom");
    let cache = Cache::with_table_limit(100);
    let mut frames = Vec::new();
    let mut process = target.process();
    let result = process.unwind(&cache, &stopped.sample(), Mode::Dwarf, &mut frames);
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    assert_eq!(cache.table_bytes(), 0);

    let cache = Cache::new();
    let mut bytes = None;
    for _ in 0..10 {
        let mut frames = Vec::new();
        let mut process = target.process();
        let result = process.unwind(&cache, &stopped.sample(), Mode::Dwarf, &mut frames);
        assert_eq!(result, Ok(()));
        // The file is read once for all processes.
        assert_eq!(
            *bytes.get_or_insert(cache.table_bytes()),
            cache.table_bytes()
        );
        assert_eq!(cache.len(), 2, "program and libc");
    }
    cache.clear();
    drop(frames);
    drop(process);
    assert_eq!((cache.len(), cache.table_bytes()), (0, 0));
}

#[test]
fn damaged_tables_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let file = cc(folder.path(), "program", RECURSION, &["-O1", "-DDEPTH=3"]);
    let size = 0x4000;
    let original = fs::read(&file).unwrap();
    let mut numbers = Random(99);
    for round in 0..120 {
        let name = [".eh_frame", ".eh_frame_hdr"][round % 2];
        let (at, header) = header_of(&file, name);
        let mut bytes = original.clone();
        for _ in 0..1 + numbers.next() % 4 {
            let start = header.offset as usize;
            bytes[start + numbers.next() as usize % header.size as usize] = numbers.next() as u8;
        }
        if round % 5 == 0 {
            let field = at as usize + [16, 24, 32][round % 3];
            bytes[field + numbers.next() as usize % 8] = numbers.next() as u8;
        }
        let damaged = folder.path().join("damaged");
        fs::write(&damaged, bytes).unwrap();
        let mut process = process_of(folder.path(), &damaged, size);
        let cache = Cache::new();
        for offset in [0x1000, 0x1050, 0x1100, 0x1180, 0x1200] {
            let (frames, _) = unwind_in(&mut process, &cache, offset, size);
            assert!(!frames.is_empty() && frames.len() <= Process::MAX_FRAMES + 1);
        }
    }
}

/// Unwinds a function in an endless loop with these directives in its frame description.
fn with_directives(directives: &str) -> (Vec<Frame>, Result<(), UnwindError>) {
    let source = format!(
        "#include <stdio.h>\nvoid bad(void);\n#ifdef __aarch64__\n#define JUMP \"b\"\n#define VALID \".cfi_escape 0x0f, 2, 0x8f, 0\"\n
#define LOST \"mov x30, #1\\nmov x29, #1\"\n#else\n#define JUMP \"jmp\"\n#define VALID \".cfi_escape 0x0f, 2, 0x77, 8\"\n
#define LOST \"push $1\"\n#endif
        __asm__(\".text\\n.type bad,@function\\nbad: .cfi_startproc\\n{directives}\\n1: \" JUMP \" 1b\\n.cfi_endproc\\n.size bad,.-bad\\n\");
        int main() {{ puts(\"ready\"); fflush(stdout); bad(); return 1; }}"
    );
    let target = Target::c(&source, &["-O1"]);
    let stopped = target.stop_in("bad");
    unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf)
}

#[test]
fn endless_expressions_are_aborted() {
    // The canonical frame address is computed by an expression that jumps to itself.
    let (frames, result) = with_directives(".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff");
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    assert_eq!(names(&frames), ["bad", "ERROR UNWIND_INFO"]);
    // Each iteration pushes a value: lit1, skip -4.
    let (_, result) = with_directives(".cfi_escape 0x0f, 4, 0x31, 0x2f, 0xfc, 0xff");
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    // A valid expression is followed: the stack pointer, and on x86-64 eight.
    let (frames, result) = with_directives("\" VALID \"");
    assert_eq!(result, Ok(()));
    assert_eq!(names(&frames)[..2], ["bad", "main"]);
}

#[test]
fn huge_call_frame_programs_are_not_interpreted() {
    // Without the return address where it is at the start of a function.
    let directives = ".rept 150000\\n.cfi_escape 0x2e, 0\\n.endr\\n\" LOST \"";
    let (frames, result) = with_directives(directives);
    assert_eq!(result, Err(UnwindError::UnwindInfo));
    assert_eq!(names(&frames), ["bad", "ERROR UNWIND_INFO"]);
}

#[test]
fn a_process_that_is_gone_gives_only_an_error() {
    let target = Target::c(RECURSION, &["-O1", "-DDEPTH=5"]);
    let stopped = target.stop_in("bottom");
    let mut process = target.process();
    drop(target);
    let (frames, result) = unwind(&mut process, &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Err(UnwindError::InvalidMap));
    assert_eq!(frames[0].rel_pc, stopped.registers.pc());
    assert_eq!(names(&frames), ["?", "ERROR INVALID_MAP"]);
}

#[test]
fn names_are_read_only_within_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = cc(folder.path(), "program", RECURSION, &["-O1", "-DDEPTH=3"]);
    let offset = header_of(&file, ".text").1.offset;
    let name = |cache: &Cache| {
        let mut process = process_of(folder.path(), &file, 0x4000);
        let (frames, _) = unwind_in(&mut process, cache, offset, 0x4000);
        frames[0].function_name().map(|name| name.to_string())
    };
    let cache = Cache::new();
    assert_eq!(name(&cache).as_deref(), Some("_start"));
    let both = cache.table_bytes();

    // Symbols that fill a sparse file.
    let (at, _) = header_of(&file, ".symtab");
    let handle = fs::OpenOptions::new().write(true).open(&file).unwrap();
    handle.set_len(1 << 40).unwrap();
    handle
        .write_all_at(&(1_u64 << 39).to_le_bytes(), at + 32)
        .unwrap();
    let cache = Cache::new();
    assert_eq!(name(&cache), None);
    assert!(cache.table_bytes() < both);
}

#[test]
fn unused_tables_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = cc(folder.path(), "program", RECURSION, &["-O1", "-DDEPTH=3"]);
    let size = 0x4000;
    let offset = header_of(&file, ".text").1.offset;
    let one = {
        let cache = Cache::new();
        let mut process = process_of(folder.path(), &file, size);
        let _ = unwind_in(&mut process, &cache, offset, size);
        cache.table_bytes()
    };
    assert!(one > 0);
    // Space for four of them, while forty programs come and go.
    let cache = Cache::with_table_limit(4 * one);
    for number in 0..40 {
        let copy = folder.path().join(format!("copy{number}"));
        fs::copy(&file, &copy).unwrap();
        let mut process = process_of(folder.path(), &copy, size);
        let before = cache.table_bytes();
        let _ = unwind_in(&mut process, &cache, offset, size);
        assert!(cache.table_bytes() >= one && cache.table_bytes() <= 4 * one);
        assert!(number == 0 || before > 0);
        assert!(cache.len() <= 4, "{}", cache.len());
    }
}

// The functions have instructions of x86-64.
#[cfg(target_arch = "x86_64")]
/// Builds a library of `functions` functions, each with a frame description and a symbol.
fn large(folder: &Path, functions: usize) -> std::path::PathBuf {
    let source = format!(
        "__asm__(\".text\\n.altmacro\\n.macro f n\\n.globl function_with_a_long_name_\\\\n\\n\"
                 \".type function_with_a_long_name_\\\\n,@function\\nfunction_with_a_long_name_\\\\n:\\n\"
                 \".cfi_startproc\\npush %rbx\\n.cfi_adjust_cfa_offset 8\\nnop\\nnop\\nnop\\nnop\\nnop\\nnop\\n\"
                 \"pop %rbx\\n.cfi_adjust_cfa_offset -8\\nret\\nnop\\nnop\\nnop\\nnop\\nnop\\nnop\\nnop\\n.cfi_endproc\\n\"
                 \".size function_with_a_long_name_\\\\n,.-function_with_a_long_name_\\\\n\\n.endm\\n\"
                 \".balign 16\\nbeginning:\\n.set i,0\\n.rept {functions}\\nf %i\\n.set i,i+1\\n.endr\\n\");"
    );
    cc(
        folder,
        "large",
        &source,
        &[
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-s",
            "-Wl,-z,noseparate-code",
        ],
    )
}

#[cfg(target_arch = "x86_64")]
#[test]
fn perf_035_many_large_files_take_bounded_memory_and_stacks_stay_correct() {
    const FUNCTIONS: u64 = 5000;
    const FILES: usize = 24;
    const LIMIT: usize = 256 << 10;
    let folder = tempfile::tempdir().unwrap();
    let file = large(folder.path(), FUNCTIONS as usize);
    let elf = ferretto_elf::Elf::open(fs::read(&file).unwrap(), 0).unwrap();
    let first = elf.section_header(".text").unwrap().offset;
    let tables = [".eh_frame", ".eh_frame_hdr", ".dynsym", ".dynstr"]
        .map(|name| elf.section_header(name).unwrap().size)
        .iter()
        .sum::<u64>() as usize;
    assert!(tables > LIMIT, "{tables}");
    let size = 0x8_0000;
    let cache = Cache::with_table_limit(LIMIT);
    let mut processes: Vec<Process> = (0..FILES)
        .map(|number| {
            let folder = folder.path().join(format!("copy{number}"));
            fs::create_dir(&folder).unwrap();
            let copy = folder.join("large");
            fs::copy(&file, &copy).unwrap();
            process_of(&folder, &copy, size)
        })
        .collect();
    let mut numbers = Random(7);
    for round in 0..3 {
        for process in &mut processes {
            for _ in 0..20 {
                let function = numbers.next() % FUNCTIONS;
                // After the `push`: the return address is one word up.
                let offset = first + 16 * function + 3;
                let (frames, _) = unwind_in(process, &cache, offset, size);
                let name = format!("function_with_a_long_name_{function}");
                assert_eq!(
                    frames[0].function_name().as_deref(),
                    Some(&*name),
                    "{round}"
                );
                let distance = frames[1].rel_pc.wrapping_sub(frames[0].rel_pc);
                assert_eq!(distance, 96_u64.wrapping_sub(offset), "{round}");
                assert!(cache.table_bytes() <= LIMIT, "{}", cache.table_bytes());
            }
        }
    }
    // All are in use all the time, and together exceed the limit by far.
    assert_eq!(cache.len(), FILES);
    cache.clear();
    drop(processes);
    assert_eq!(cache.table_bytes(), 0);
}
