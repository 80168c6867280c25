//! A private tracefs instance.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::tracefs::{Tracefs, TracefsError};

/// The prefix of this program's instances, before the process id.
const PREFIX: &str = "ferretto-";

/// The number of instances that this process has created.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A tracefs instance created by this process, removed on drop.
///
/// It has separate buffers and settings, so it neither loses events because of other users of the
/// kernel's tracing nor disturbs them (kernel documentation: ftrace, "Instances"). Messages that
/// programs write to `trace_marker` only reach the top level.
#[derive(Debug)]
pub struct OwnInstance {
    path: PathBuf,
    name: String,
}

impl OwnInstance {
    /// Creates an instance. Mounts tracefs first if it is not mounted, and removes the instances of
    /// killed processes.
    ///
    /// # Errors
    ///
    /// Fails if there is no tracefs, or if this user may not create instances.
    pub fn create() -> Result<Self, TracefsError> {
        let fs = Tracefs::find_or_mount()?;
        let instances = fs.root().join("instances");
        super::claim::reap();
        remove_orphans(&instances);
        // No instance has these events enabled any more.
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

    /// Returns the name for `FtraceConfig.instance_name`.
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

/// Removes the instances of ended processes. Instances in use cannot be removed.
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
        if !crate::procfs::is_alive(owner) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
