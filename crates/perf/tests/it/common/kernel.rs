//! A simulated kernel made of files.

use std::fs;
use std::path::{Path, PathBuf};

use ferretto_perf::config::Kernel;
use tempfile::TempDir;

pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

/// Returns a kernel with one tracepoint and some PMUs.
pub(crate) fn kernel() -> (TempDir, Kernel) {
    let home = tempfile::tempdir().expect("a directory");
    let root = home.path();
    put(root, "tracing/trace", "");
    put(root, "tracing/events/sched/sched_switch/id", "314\n");
    put(root, "tracing/events/sched/broken/id", "many\n");
    let units = "sys/bus/event_source/devices";
    put(root, &format!("{units}/software/type"), "1\n");
    put(root, &format!("{units}/broken/type"), "x\n");
    put(root, &format!("{units}/uncore/type"), " 12 \n");
    put(root, &format!("{units}/uncore/cpumask"), "0,2-3\n");
    put(
        root,
        &format!("{units}/uncore/format/event"),
        "config:0-7\n",
    );
    put(root, "sys/devices/system/cpu/online", "0-1,3\n");
    put(
        root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n\n",
    );
    let kernel = Kernel {
        tracefs: vec![PathBuf::from("/nonexistent"), root.join("tracing")],
        sysfs: root.join("sys"),
        procfs: root.join("proc"),
    };
    (home, kernel)
}
