//! Programs to be sampled.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The program, compiled; `None`, with the reason printed, without a C compiler.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = folder.join(format!("daemon-target-{}", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemon/target.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-g", "-fno-optimize-sibling-calls", "-o"]);
        match compiler.arg(&program).arg(source).status() {
            Ok(status) => {
                assert!(status.success(), "the target does not compile");
                let lasting = folder.join("daemon-target");
                std::fs::rename(program, &lasting).expect("renamed");
                Some(lasting)
            }
            Err(error) => {
                println!("skipped: cc: {error}");
                None
            }
        }
    };
    PROGRAM.get_or_init(compile).as_deref()
}

/// A running process; ended when it is dropped.
pub(crate) struct Target(Child);

impl Target {
    pub(crate) fn run(arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(program()?);
        command.args(arguments).stdin(Stdio::piped());
        Some(Self(command.spawn().expect("the target runs")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Has it do what it waits for.
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
