//! The cost of unwinding a stack of about fifty frames again and again, as a profiler does.
//!
//! `unwind [ROUNDS]` compiles a program, stops it deep in its calls, and unwinds its stack. The
//! shortest time is reported. `unwind --hold` starts the program, prints its pid, and waits, so
//! that other tools can unwind the same stack.

#![cfg_attr(not(target_arch = "x86_64"), allow(unused_imports))]

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use ferretto_unwind::{Cache, Frame, Machine, Mode, Process, Registers, StackCopy};
use nix::sys::{ptrace, signal, wait};
use nix::unistd::Pid;

/// Ten functions that call each other five times round.
const SOURCE: &str = r#"
#include <stdio.h>
volatile int stop;
__attribute__((noinline)) void leaf(void) { puts("ready"); fflush(stdout); while (!stop); }
int start(int);
#define F(name, next, size) __attribute__((noinline)) int name(int n) { volatile char bytes[size]; bytes[0] = n; return next(n) + bytes[0] * n; }
int last(int n) { if (n == 0) leaf(); else return start(n - 1) + n; return n; }
F(f8, last, 24) F(f7, f8, 100) F(f6, f7, 16) F(f5, f6, 40) F(f4, f5, 8) F(f3, f4, 200) F(f2, f3, 64) F(f1, f2, 16)
__attribute__((noinline)) int start(int n) { return f1(n) + 3 * n; }
int main(int argc, char **argv) { return start(argc + 3); }
"#;

struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    let folder = tempfile::tempdir()?;
    let variants = [
        ("tables", "-fomit-frame-pointer", Mode::Dwarf),
        ("pointers", "-fno-omit-frame-pointer", Mode::FramePointer),
    ];
    for (name, flag, mode) in variants {
        let target = start(folder.path(), flag)?;
        if argument.as_deref() == Some("--hold") {
            println!("{}", target.0.id());
            io::stdin().read_line(&mut String::new())?;
            return Ok(());
        }
        let rounds = argument.as_deref().unwrap_or("200").parse()?;
        measure(name, &target, mode, rounds)?;
    }
    Ok(())
}

fn start(folder: &std::path::Path, flag: &str) -> Result<Target, Box<dyn std::error::Error>> {
    let source = folder.join("target.c");
    fs::write(&source, SOURCE)?;
    let program = folder.join("target");
    let status = Command::new("cc")
        .args(["-O2", "-fno-optimize-sibling-calls", flag, "-o"])
        .args([&program, &source])
        .status()?;
    assert!(status.success(), "the program does not compile");
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new())?;
    Ok(Target(child))
}

fn measure(
    name: &str,
    target: &Target,
    mode: Mode,
    rounds: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    const TIMES: u32 = 2000;
    let pid = target.0.id();
    let open = |name| File::open(format!("/proc/{pid}/{name}"));
    let (registers, stack) = loop {
        let (registers, stack) = stop(pid, &open("mem")?)?;
        let mut process = Process::new(pid, open("maps")?, open("mem")?);
        let mut frames = Vec::new();
        let _ = process.unwind(
            &Cache::new(),
            &sample(&registers, &stack),
            mode,
            &mut frames,
        );
        if frames.first().and_then(Frame::function_name).as_deref() == Some("leaf") {
            break (registers, stack);
        }
    };
    let sample = sample(&registers, &stack);
    let cache = Cache::new();
    let mut process = Process::new(pid, open("maps")?, open("mem")?);
    let mut frames = Vec::new();
    let began = Instant::now();
    process.unwind(&cache, &sample, mode, &mut frames)?;
    let first = began.elapsed();
    let count = frames.len();
    let best = (0..rounds).map(|_| {
        let began = Instant::now();
        for _ in 0..TIMES {
            frames.clear();
            let _ = process.unwind(&cache, &sample, mode, &mut frames);
        }
        began.elapsed() / TIMES
    });
    let best = best.min().unwrap_or_default();
    let each = best.as_nanos() as f64 / count as f64;
    println!("{name}: {count} frames: first {first:?}, then {best:?}, {each:.1} ns a frame");
    Ok(())
}

fn sample<'a>(registers: &'a Registers, stack: &'a [u8]) -> StackCopy<'a> {
    StackCopy {
        registers: Some(registers),
        stack,
        stack_full: false,
        user_chain: &[],
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stop(_: u32, _: &File) -> Result<(Registers, Vec<u8>), Box<dyn std::error::Error>> {
    Err("only on x86-64".into())
}

#[cfg(target_arch = "x86_64")]
fn stop(pid: u32, memory: &File) -> Result<(Registers, Vec<u8>), Box<dyn std::error::Error>> {
    let id = Pid::from_raw(i32::try_from(pid)?);
    ptrace::attach(id)?;
    wait::waitpid(id, None)?;
    let raw = ptrace::getregs(id)?;
    let mut registers = Registers::new(Machine::X86_64);
    registers.set_pc(raw.rip);
    let numbered = [
        raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi, raw.rbp, raw.rsp, raw.r8, raw.r9,
        raw.r10, raw.r11, raw.r12, raw.r13, raw.r14, raw.r15,
    ];
    for (number, value) in numbered.into_iter().enumerate() {
        registers.set(number, value);
    }
    let mut stack = vec![0; 65_280];
    let read = memory.read_at(&mut stack, raw.rsp)?;
    stack.truncate(read);
    ptrace::detach(id, None::<signal::Signal>)?;
    Ok((registers, stack))
}
