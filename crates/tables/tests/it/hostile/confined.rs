//! Tests in separate processes, with limits that the kernel enforces.

use std::process::Command;

use ferretto_tables::{ImportError, Options, Trace};
use ferretto_trace::Limits;

/// The limits of address space in KiB and of CPU time in seconds. Both are several times the needs
/// of any of these files.
const MEMORY: u32 = 1 << 20;
const SECONDS: u32 = 60;
/// The environment variable that marks the child process.
const CONFINED: &str = "FERRETTO_TEST_CONFINED";

/// Runs the rest of a test within limits. `name` is the name of the test in its module.
pub(crate) fn confined(name: &str, test: impl FnOnce()) {
    if std::env::var_os(CONFINED).is_some() {
        return test();
    }
    let name = format!("hostile::{name}");
    let script = format!("ulimit -v {MEMORY} && ulimit -t {SECONDS} && exec \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, "sh"])
        .arg(std::env::current_exe().expect("a program"))
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CONFINED, "1")
        // The heaps of threads would take additional address space.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}: {text}{said}",
        output.status
    );
}

/// Imports a file on one thread, with a limit of 16 MiB for the reader and 64 MiB for the tables.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, ImportError> {
    let options = Options {
        threads: 1,
        limits: Limits::memory(0).with_decompressed(Some(1 << 30)),
        memory: 64 << 20,
        ..Options::default()
    };
    Trace::read(bytes, &options)
}

/// Returns the peak memory of this process in bytes.
pub(crate) fn peak() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("the kernel provides the status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: usize = kib.and_then(|kib| kib.parse().ok()).expect("a number");
    kib << 10
}

/// Imports a file that must give tables.
pub(crate) fn tables(bytes: &[u8]) -> Trace {
    let trace = read(bytes).expect("tables");
    assert!(trace.memory() < 128 << 20, "{}", trace.memory());
    trace
}
