//! JIT-compiled code, and programs in namespaces of their own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::PathBuf;

use crate::target::{Target, cc, names, unwind};
use ferretto_unwind::{Cache, Frame, Mode, Process};

/// Writes two functions into memory and calls them: `outer` calls `inner`, which loops for ever.
/// Prints their addresses.
const JIT: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
#ifdef __aarch64__
    /* stp x29,x30,[sp,#-16]!; mov x29,sp; b . */
    unsigned inner[] = {0xa9bf7bfd, 0x910003fd, 0x14000000};
    /* stp x29,x30,[sp,#-16]!; mov x29,sp; bl inner; ldp x29,x30,[sp],#16; ret */
    unsigned outer[] = {0xa9bf7bfd, 0x910003fd, 0x97ffffee, 0xa8c17bfd, 0xd65f03c0};
#else
    /* push %rbp; mov %rsp,%rbp; jmp . */
    char inner[] = "\x55\x48\x89\xe5\xeb\xfe";
    /* push %rbp; mov %rsp,%rbp; call inner (at the beginning of the page, 64 bytes before); pop %rbp; ret */
    char outer[] = "\x55\x48\x89\xe5\xe8\xb7\xff\xff\xff\x5d\xc3";
#endif
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, inner, sizeof inner); memcpy(code + 64, outer, sizeof outer);
    __builtin___clear_cache(code, code + 4096);
    if (argc > 1) {
        int file = open(argv[1], O_RDWR);
        mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    }
    printf("%lx %d\n", (unsigned long)code, getpid()); fflush(stdout);
    getchar();
    puts("on"); fflush(stdout);
    ((void (*)(void))(code + 64))();
}
"#;

/// The offset of the loop in `inner`.
const LOOP: u64 = if cfg!(target_arch = "aarch64") { 8 } else { 4 };

/// A file that is removed on drop.
struct TempPath(PathBuf);

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn perf_map(pid: u32) -> TempPath {
    TempPath(format!("/tmp/perf-{pid}.map").into())
}

struct Made {
    target: Target,
    code: u64,
}

fn make() -> Made {
    let folder = tempfile::tempdir().unwrap();
    let program = cc(folder.path(), "program", JIT, &["-O1"]);
    let (target, line) = Target::start_with_line(folder, &program);
    let code = line.split(' ').next().unwrap();
    let code = u64::from_str_radix(code, 16).unwrap();
    Made { target, code }
}

impl Made {
    fn map_text(&self) -> String {
        format!(
            "{:x} 40 inner function\n{:x} 40 outer function\n",
            self.code,
            self.code + 64
        )
    }

    /// Waits until the program is in the loop, and unwinds.
    fn frames(&self, process: &mut Process) -> Vec<Frame> {
        let cache = Cache::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let stopped = self.target.stop();
            let pc = stopped.registers.pc();
            if pc >= self.code + LOOP && pc < self.code + 64 {
                let mut frames = Vec::new();
                let result = process.unwind(&cache, &stopped.sample(), Mode::Dwarf, &mut frames);
                assert_eq!(result, Ok(()), "{:?}", names(&frames));
                return frames;
            }
            assert!(std::time::Instant::now() < deadline);
        }
    }
}

#[test]
fn perf_034_functions_of_a_jit_compiler_are_named_by_its_map() {
    let mut made = make();
    let left = perf_map(made.target.pid());
    fs::write(&left.0, made.map_text()).unwrap();
    made.target.go();
    let frames = made.frames(&mut made.target.process());
    assert_eq!(
        names(&frames)[..3],
        ["inner function", "outer function", "main"]
    );
    assert_eq!(names(&frames).last().unwrap(), "_start");
    assert_eq!(frames[0].mapping.as_ref().unwrap().path, "");
}

#[test]
fn only_the_targets_own_jit_map_is_read() {
    let mut made = make();
    let left = perf_map(made.target.pid());
    made.target.go();
    let unnamed = |why: &str| {
        let frames = made.frames(&mut made.target.process());
        assert_eq!(names(&frames)[..3], ["?", "?", "main"], "{why}");
    };
    unnamed("there is none");

    let elsewhere = made.target.folder.path().join("elsewhere");
    fs::write(&elsewhere, made.map_text()).unwrap();
    symlink(&elsewhere, &left.0).unwrap();
    unnamed("a link may lead to a file that the target must not read");
    fs::remove_file(&left.0).unwrap();

    let mode = rustix::fs::Mode::RWXU;
    let cwd = rustix::fs::CWD;
    rustix::fs::mknodat(cwd, &left.0, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    unnamed("opening a FIFO would block");
    fs::remove_file(&left.0).unwrap();

    fs::write(&left.0, made.map_text()).unwrap();
    fs::set_permissions(&left.0, fs::Permissions::from_mode(0o644)).unwrap();
    if chown(&left.0, Some(12345), None).is_err() {
        println!("skipped: changing the owner of a file needs root");
        return;
    }
    unnamed("another user owns it");
}

#[test]
fn perf_034_functions_of_a_jit_compiler_are_named_by_its_dump() {
    let folder = tempfile::tempdir().unwrap();
    let program = cc(folder.path(), "program", JIT, &["-O1"]);
    let dump = folder.path().join("jit-1.dump");
    fs::write(&dump, vec![0; 4096]).unwrap();
    let (target, line) = Target::start_with_argument(folder, &program, Some("jit-1.dump"));
    let code = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let mut made = Made { target, code };

    let mut bytes = Vec::new();
    for value in [0x4a69_5444_u32, 1, 40, 62, 0, 1, 0, 0, 0, 0] {
        bytes.extend(value.to_le_bytes());
    }
    for (address, name) in [
        (code + 64, "outer in the dump"),
        (0x1000, "inner in the dump"),
    ] {
        let body = [&[0; 8][..], &address.to_le_bytes(), &address.to_le_bytes()].concat();
        let rest = [&64_u64.to_le_bytes()[..], &[1; 8], name.as_bytes(), &[0]].concat();
        let size = 16 + body.len() + rest.len() + 64;
        bytes.extend([0_u32.to_le_bytes(), (size as u32).to_le_bytes()].concat());
        bytes.extend([[0; 8].as_slice(), &body, &rest, &[0x90; 64]].concat());
    }
    // The inner function is moved to its final address.
    bytes.extend([1_u32.to_le_bytes(), 64_u32.to_le_bytes()].concat());
    bytes.extend(
        [0, 0, 0, 0x1000, code, 64, 2]
            .map(u64::to_le_bytes)
            .concat(),
    );
    fs::write(&dump, bytes).unwrap();
    made.target.go();
    let frames = made.frames(&mut made.target.process());
    assert_eq!(
        names(&frames)[..3],
        ["inner in the dump", "outer in the dump", "main"]
    );
}

const SPIN: &str = r#"
#include <stdio.h>
volatile int stop;
__attribute__((noinline)) void spin(void) { puts("ready"); fflush(stdout); while (!stop); }
__attribute__((noinline)) void caller(void) { spin(); stop++; }
int main() { caller(); return 0; }
"#;

#[test]
fn perf_034_programs_in_their_own_mount_namespace_are_unwound() {
    let folder = tempfile::tempdir().unwrap();
    let program = cc(folder.path(), "original", SPIN, &["-O1"]);
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let script = folder.path().join("script");
    let text = format!(
        "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none {0} && cp {1} {0}/program && exec {0}/program || echo no'\n",
        inside.display(),
        program.display(),
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let Some((target, line)) = Target::try_start(folder, &script) else {
        println!("skipped: cannot create a mount namespace");
        return;
    };
    if line != "ready" {
        println!("skipped: cannot create a mount namespace");
        return;
    }
    // The program of that name in our namespace is another file.
    fs::copy("/bin/true", target.folder.path().join("inside/program")).unwrap();
    let stopped = target.stop_in("spin");
    let (frames, result) = unwind(&mut target.process(), &stopped.sample(), Mode::Dwarf);
    assert_eq!(result, Ok(()));
    assert_eq!(names(&frames)[..3], ["spin", "caller", "main"]);
    assert!(
        frames[0]
            .mapping
            .as_ref()
            .unwrap()
            .path
            .ends_with("inside/program")
    );
}
