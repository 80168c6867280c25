//! Limits of this machine and user.

use std::fs;
use std::io;

use crate::ftrace::{Tracefs, TracefsError};
use crate::journal::{NoJournal, usable};

/// A data source that can record nothing, or less than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The name of the data source.
    pub source: &'static str,
    /// The reason, as a clause.
    pub reason: String,
    /// The remedy, as a clause.
    pub how_to_allow: String,
    /// The command that allows it for this user, if there is one. `how_to_allow`
    /// includes it.
    pub command: Option<&'static str>,
}

/// Mounts tracefs and gives it to the user.
const OWN: &str = "sudo chown -R $USER /sys/kernel/tracing";
const MOUNT: &str = "sudo mount -t tracefs tracefs /sys/kernel/tracing \
     && sudo chown -R $USER /sys/kernel/tracing";
/// Allows the user to read the journal, from the next login on.
const JOIN: &str = "sudo usermod -aG systemd-journal $USER";

/// Returns the data sources that do not work here, one entry each; empty if all do.
///
/// Only inspects the system: nothing is started, mounted or changed.
pub fn availability() -> Vec<Unavailable> {
    let mut found = Vec::new();
    found.extend(ftrace(Tracefs::find().err()));
    if let Err(error) = fs::read("/proc/1/status") {
        found.push(Unavailable {
            source: crate::PROCESS_STATS,
            reason: format!("processes of other users are hidden (/proc/1/status: {error})"),
            how_to_allow: if rustix::process::geteuid().is_root() {
                "mount /proc without hidepid".to_owned()
            } else {
                "run as root, or mount /proc without hidepid".to_owned()
            },
            command: None,
        });
    }
    found.extend(usable().err().map(journal));
    found
}

fn journal(error: NoJournal) -> Unavailable {
    let (how_to_allow, command) = match error {
        NoJournal::Program => ("install systemd".to_owned(), None),
        NoJournal::Nowhere => ("run systemd-journald".to_owned(), None),
        NoJournal::NotPermitted(_) => (format!("run as root, or: {JOIN}"), Some(JOIN)),
    };
    Unavailable {
        source: crate::SYSTEMD_JOURNALD,
        reason: error.to_string(),
        how_to_allow,
        command,
    }
}

fn ftrace(error: Option<TracefsError>) -> Option<Unavailable> {
    let root = rustix::process::geteuid().is_root();
    let (reason, how_to_allow, command) = match error? {
        // It is mounted when it is needed.
        TracefsError::NotMounted if root && fs::metadata("/sys/kernel/tracing").is_ok() => {
            return None;
        }
        TracefsError::NotMounted if root => (
            "this kernel has no tracefs".to_owned(),
            "use a kernel with CONFIG_FTRACE".to_owned(),
            None,
        ),
        TracefsError::NotMounted => (
            "tracefs is not mounted, or not visible to this user".to_owned(),
            format!("run as root, or: {MOUNT}"),
            Some(MOUNT),
        ),
        TracefsError::NotPermitted { path, error } if denied(&error) && root => (
            format!(
                "{} is not readable even for this root ({error})",
                path.display()
            ),
            "run outside of the container, or with --privileged".to_owned(),
            None,
        ),
        TracefsError::NotPermitted { path, error } if denied(&error) => (
            format!("{} is not readable for this user ({error})", path.display()),
            format!("run as root, or: {OWN}"),
            Some(OWN),
        ),
        other => (
            other.to_string(),
            "see the message of the kernel".to_owned(),
            None,
        ),
    };
    Some(Unavailable {
        source: crate::FTRACE,
        reason,
        how_to_allow,
        command,
    })
}

fn denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
