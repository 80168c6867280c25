//! Real programs, compiled by the tests and stopped by ptrace once they are ready.

#![allow(dead_code)]

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_unwind::{Cache, Frame, Machine, Mode, Process, Registers, StackCopy, UnwindError};
use nix::sys::{ptrace, signal, wait};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The folder of compiled programs, for machines without a compiler.
const PROGRAMS: &str = "UNWIND_PROGRAMS";
/// A compiler for such a machine. The tests fill the folder with it.
const OTHER_COMPILER: &str = "UNWIND_OTHER_CC";

/// Compiles `source` with `cc`.
pub(crate) fn cc(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let input = folder.join(format!("{name}.c"));
    fs::write(&input, source).unwrap();
    let output = folder.join(name);
    let compile = |compiler: &OsStr, output: &Path, flags: &mut dyn Iterator<Item = &&str>| {
        let mut command = Command::new(compiler);
        command
            .current_dir(folder)
            .arg(&input)
            .arg("-o")
            .arg(output)
            .args(flags);
        command
    };
    let programs = env::var_os(PROGRAMS).map(PathBuf::from);
    if let Some(programs) = programs {
        let mut hash = DefaultHasher::new();
        (name, source, flags).hash(&mut hash);
        let program = programs.join(format!("{:016x}", hash.finish()));
        let Some(compiler) = env::var_os(OTHER_COMPILER) else {
            fs::copy(&program, &output).expect("a program compiled before");
            return output;
        };
        // Not all programs are for all machines.
        let _ = compile(&compiler, &program, &mut flags.iter()).output();
    }
    // Flags of another machine.
    let is_known =
        |flag: &&&str| cfg!(target_arch = "aarch64") || !flag.starts_with("-mbranch-protection");
    run(&mut compile(
        "cc".as_ref(),
        &output,
        &mut flags.iter().filter(is_known),
    ));
    output
}

/// Returns true if a program is installed.
pub(crate) fn has(program: &str) -> bool {
    let is_found = Command::new(program).arg("--version").output().is_ok();
    if !is_found {
        println!("skipped: {program} is not installed");
    }
    is_found
}

/// Compiles `source` with `rustc`. Returns `None` if there is none.
pub(crate) fn rustc(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let input = folder.join(format!("{name}.rs"));
    fs::write(&input, source).unwrap();
    let output = folder.join(name);
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if !has(&compiler.to_string_lossy()) {
        return None;
    }
    let mut command = Command::new(compiler);
    run(command.arg(&input).arg("-o").arg(&output).args(flags));
    Some(output)
}

pub(crate) fn run(command: &mut Command) {
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {text}");
}

/// A running program, which is killed on drop.
pub(crate) struct Target {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(crate) folder: TempDir,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.end();
    }
}

/// The state of a stopped target.
pub(crate) struct Stopped {
    pub(crate) registers: Registers,
    pub(crate) stack: Vec<u8>,
}

impl Target {
    /// Compiles and starts a C program, which prints a line when it is ready.
    pub(crate) fn c(source: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = cc(folder.path(), "program", source, flags);
        Self::start(folder, &program)
    }

    pub(crate) fn start(folder: TempDir, program: &Path) -> Self {
        Self::start_with_line(folder, program).0
    }

    /// Starts a program, and returns the line that it prints when it is ready, too.
    pub(crate) fn start_with_line(folder: TempDir, program: &Path) -> (Self, String) {
        Self::start_with_argument(folder, program, None)
    }

    pub(crate) fn start_with_argument(
        folder: TempDir,
        program: &Path,
        argument: Option<&str>,
    ) -> (Self, String) {
        Self::launch(folder, program, argument).expect("a line that says it is ready")
    }

    /// Starts a program. Returns `None` if it ends at once.
    pub(crate) fn try_start(folder: TempDir, program: &Path) -> Option<(Self, String)> {
        Self::launch(folder, program, None)
    }

    fn launch(folder: TempDir, program: &Path, argument: Option<&str>) -> Option<(Self, String)> {
        let mut child = Command::new(program)
            .args(argument)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self {
            child,
            output,
            folder,
        };
        let line = target.next_line()?;
        Some((target, line))
    }

    /// Returns the next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        self.next_line().expect("the program has ended")
    }

    fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| line.trim().into())
    }

    /// Lets the program continue to its next line.
    pub(crate) fn go(&mut self) -> String {
        use std::io::Write as _;
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line()
    }

    /// Sends `SIGUSR1`, and returns the next line.
    pub(crate) fn signal(&mut self) -> String {
        let pid = Pid::from_raw(self.pid() as i32);
        signal::kill(pid, signal::Signal::SIGUSR1).unwrap();
        self.line()
    }

    /// Kills the program. Its files stay.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn process(&self) -> Process {
        let open = |name| File::open(format!("/proc/{}/{name}", self.pid())).unwrap();
        Process::new(self.pid(), open("maps"), open("mem"))
    }

    /// Returns registers and stack of the main thread.
    pub(crate) fn stop(&self) -> Stopped {
        self.stop_thread(self.pid(), usize::MAX)
    }

    /// Returns registers and stack of the main thread once it is in `function`.
    pub(crate) fn stop_in(&self, function: &str) -> Stopped {
        self.stop_thread_in(self.pid(), function)
    }

    /// Returns registers and stack of a thread once it is in `function`.
    pub(crate) fn stop_thread_in(&self, tid: u32, function: &str) -> Stopped {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let stopped = self.stop_thread(tid, usize::MAX);
            let (frames, _) = unwind(&mut self.process(), &stopped.sample(), Mode::Dwarf);
            if frames.first().and_then(Frame::function_name).as_deref() == Some(function) {
                return stopped;
            }
            assert!(Instant::now() < deadline, "{:?}", names(&frames));
            std::thread::yield_now();
        }
    }

    /// Returns registers of a thread, and at most `most` bytes of its stack.
    pub(crate) fn stop_thread(&self, tid: u32, most: usize) -> Stopped {
        let pid = Pid::from_raw(tid as i32);
        ptrace::attach(pid).unwrap();
        wait::waitpid(pid, Some(wait::WaitPidFlag::__WALL)).unwrap();
        let stopped = self.registers(pid, most);
        ptrace::detach(pid, None::<signal::Signal>).unwrap();
        stopped
    }

    fn registers(&self, pid: Pid, most: usize) -> Stopped {
        let registers = registers(pid);
        let stack = self.copy(registers.sp(), most);
        Stopped { registers, stack }
    }

    /// Steps the main thread by instructions until `each` returns false.
    pub(crate) fn step(&self, mut each: impl FnMut(&Stopped) -> bool) {
        let pid = Pid::from_raw(self.pid() as i32);
        let wait = || wait::waitpid(pid, Some(wait::WaitPidFlag::__WALL)).unwrap();
        ptrace::attach(pid).unwrap();
        wait();
        while each(&self.registers(pid, usize::MAX)) {
            ptrace::step(pid, None::<signal::Signal>).unwrap();
            wait();
        }
        ptrace::detach(pid, None::<signal::Signal>).unwrap();
    }

    /// Returns the memory from `address` to the end of its map.
    pub(crate) fn copy(&self, address: u64, most: usize) -> Vec<u8> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let end = maps
            .lines()
            .filter_map(|line| {
                let (start, end) = line.split_once(' ')?.0.split_once('-')?;
                let parse = |text| u64::from_str_radix(text, 16).ok();
                (parse(start)?..parse(end)?)
                    .contains(&address)
                    .then_some(parse(end)?)
            })
            .next()
            .expect("a map of the stack");
        let mut stack = vec![0; usize::try_from(end - address).unwrap().min(most)];
        let memory = File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        memory.read_exact_at(&mut stack, address).unwrap();
        stack
    }
}

/// Reads the registers of a stopped thread.
#[cfg(target_arch = "x86_64")]
fn registers(pid: Pid) -> Registers {
    let raw = ptrace::getregs(pid).unwrap();
    let numbered = [
        raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi, raw.rbp, raw.rsp, raw.r8, raw.r9,
        raw.r10, raw.r11, raw.r12, raw.r13, raw.r14, raw.r15,
    ];
    let mut registers = Registers::new(Machine::X86_64);
    registers.set_pc(raw.rip);
    for (number, value) in numbered.into_iter().enumerate() {
        registers.set(number, value);
    }
    registers
}

/// Reads the registers of a stopped thread.
#[cfg(target_arch = "aarch64")]
fn registers(pid: Pid) -> Registers {
    let raw = ptrace::getregs(pid).unwrap();
    let mut registers = Registers::new(Machine::Aarch64);
    registers.set_pc(raw.pc);
    for (number, value) in raw.regs.into_iter().chain([raw.sp]).enumerate() {
        registers.set(number, value);
    }
    registers
}

/// The numbers of the frame pointer and the stack pointer of this machine.
pub(crate) const POINTERS: (usize, usize) = if cfg!(target_arch = "aarch64") {
    (29, 31)
} else {
    (6, 7)
};

impl Stopped {
    /// Returns the chain that the kernel would record: the program counter and at most `most`
    /// return addresses.
    pub(crate) fn chain(&self, most: usize) -> Vec<u64> {
        let word = |address: u64| {
            let at = usize::try_from(address.checked_sub(self.registers.sp())?).ok()?;
            let bytes = self.stack.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().unwrap()))
        };
        let mut chain = vec![self.registers.pc()];
        let mut fp = self.registers.fp();
        while chain.len() < most
            && let (Some(next), Some(address)) = (word(fp), word(fp.wrapping_add(8)))
        {
            chain.push(address);
            fp = next;
        }
        chain
    }

    pub(crate) fn sample(&self) -> StackCopy<'_> {
        StackCopy {
            registers: Some(&self.registers),
            stack: &self.stack,
            stack_full: false,
            user_chain: &[],
        }
    }
}

/// Returns the frames of a sample.
pub(crate) fn unwind(
    process: &mut Process,
    sample: &StackCopy<'_>,
    mode: Mode,
) -> (Vec<Frame>, Result<(), UnwindError>) {
    let mut frames = Vec::new();
    let result = process.unwind(&Cache::new(), sample, mode, &mut frames);
    (frames, result)
}

/// Returns the names of the frames; `?` for frames without a name.
pub(crate) fn names(frames: &[Frame]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| frame.function_name().unwrap_or("?".into()).to_string())
        .collect()
}

/// Returns the names from `first` to `last`, inclusive.
pub(crate) fn between<'n>(names: &'n [String], first: &str, last: &str) -> Vec<&'n str> {
    let start = names.iter().position(|name| name == first);
    let end = names.iter().rposition(|name| name == last);
    let (Some(start), Some(end)) = (start, end) else {
        panic!("no {first} or no {last} in {names:?}");
    };
    names[start..=end].iter().map(String::as_str).collect()
}
