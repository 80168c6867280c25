//! A tracefs instance for one process alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::tracefs::{Tracefs, TracefsError};

/// Instances of this program are called so, with the process id behind.
const PREFIX: &str = "ferretto-";

/// The instances that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A tracefs instance made by this process, removed when dropped.
///
/// Its buffers and settings are its own, so it neither loses events to other users of the kernel's
/// tracing nor disturbs them (kernel documentation: ftrace, "Instances"). Messages that programs
/// write to `trace_marker` go to the top level only.
#[derive(Debug)]
pub struct OwnInstance {
    path: PathBuf,
    name: String,
}

impl OwnInstance {
    /// Makes the instance; tracefs is mounted first if it is nowhere. Instances that a killed
    /// process has left behind are removed.
    ///
    /// # Errors
    ///
    /// If there is no tracefs, or this user may not make instances.
    pub fn create() -> Result<Self, TracefsError> {
        let fs = Tracefs::find_or_mount()?;
        let instances = fs.root().join("instances");
        super::claim::reap();
        remove_orphans(&instances);
        // Which no instance has enabled any more.
        super::dynamic::remove_orphans(&fs);
        let name = match MADE.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{PREFIX}{}", std::process::id()),
            number => format!("{PREFIX}{}-{number}", std::process::id()),
        };
        let path = instances.join(&name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, name }),
            Err(error) => Err(TracefsError::NotPermitted { path, error }),
        }
    }

    /// Its name, as `FtraceConfig.instance_name` wants it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for OwnInstance {
    fn drop(&mut self) {
        // The kernel refuses while another process reads there; the next recording tries again.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes the instances of processes that are gone. Those that are still in use cannot be removed.
fn remove_orphans(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|owner| owner.split('-').next()?.parse::<u32>().ok());
        let Some(owner) = owner else {
            continue;
        };
        if !is_alive(owner) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns true if there is a process of this number.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
