//! Programs to be sampled.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Compiles the program; `None`, with the reason printed, without a C compiler.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join(format!("daemon-target-{}", std::process::id()));
        let flags = ["-O1", "-g", "-fno-optimize-sibling-calls"];
        compile("cc", &source("target.c"), &flags, &program)?;
        let lasting = folder.join("daemon-target");
        std::fs::rename(program, &lasting).expect("renamed");
        Some(lasting)
    };
    PROGRAM.get_or_init(build).as_deref()
}

/// Compiles a source; `None`, with the reason printed, without the compiler.
pub(crate) fn compile(compiler: &str, source: &Path, flags: &[&str], to: &Path) -> Option<()> {
    let mut command = Command::new(compiler);
    let command = command.args(flags).arg("-o").arg(to).arg(source);
    match command.status() {
        Ok(status) => assert!(status.success(), "{source:?} does not compile"),
        Err(error) => {
            println!("skipped: {compiler}: {error}");
            return None;
        }
    }
    Some(())
}

/// Returns a file of this folder.
pub(crate) fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/daemon");
    folder.join(name)
}

/// A running process, killed on drop.
pub(crate) struct Target(Child);

impl Target {
    pub(crate) fn run(arguments: &[&str]) -> Option<Self> {
        Some(Self::start(program()?, arguments))
    }

    /// Runs any program.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        Self(command.spawn().expect("the target runs"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns the process's CPU time.
    pub(crate) fn cpu_time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid()));
        let text = text.expect("it runs");
        let ns = text.split(' ').next().expect("a number");
        Duration::from_nanos(ns.parse().expect("a number"))
    }

    /// Lets the process continue.
    pub(crate) fn ask(&mut self) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        stdin.write_all(b"x").expect("written");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
