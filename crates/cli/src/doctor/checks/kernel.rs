//! The kernel and its events.

use std::path::Path;

use ferretto_probes::availability;
use rustix::fs::{Access, access};

use super::super::check::Check;
use super::{is_root, read};
use crate::errors::without_numbers;

/// The two mount points of tracefs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Reports the kernel.
pub(super) fn version() -> Check {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let (release, machine) = (text(system.release()), text(system.machine()));
    Check::works("kernel", format!("Linux {release}, {machine}"))
}

/// Checks the data sources of the system.
pub(super) fn sources() -> [Check; 3] {
    let unavailable = availability();
    let of = |source: &str| unavailable.iter().find(|found| found.source == source);
    let events = match of("linux.ftrace") {
        None => Check::works("kernel events", events_found()),
        Some(found) => {
            let refused = Check::missing("kernel events", without_numbers(&found.reason));
            let refused = refused.so("recordings have no scheduling and other kernel events");
            match found.command {
                Some(command) => refused.remedy("sudo ferretto record").remedy(command),
                None => refused.remedy(&found.how_to_allow),
            }
        }
    };
    let processes = match of("linux.process_stats") {
        None => Check::works(
            "processes",
            "names and memory of all processes are readable",
        ),
        Some(found) => Check::limited("processes", without_numbers(&found.reason))
            .so("processes of other users have no names in recordings")
            .remedy("sudo mount -o remount,hidepid=0 /proc"),
    };
    let journal = match of("linux.systemd_journald") {
        None => Check::works("journal", "of systemd, is readable"),
        // The journal exists, and another user may read it.
        Some(found) if found.command.is_some() => {
            let refused = Check::limited("journal", without_numbers(&found.reason));
            let refused = refused.so("recordings have no linux.systemd_journald");
            let refused = refused.remedy("sudo ferretto record -c CONFIG");
            found.command.into_iter().fold(refused, Check::remedy)
        }
        Some(found) => Check::works("journal", format!("none: {}", found.reason)),
    };
    [events, processes, journal]
}

fn events_found() -> String {
    let mounted = TRACEFS
        .iter()
        .find(|path| Path::new(path).join("events").exists());
    match mounted {
        Some(path) => format!("tracefs at {path} is readable and writable"),
        None => "tracefs is mounted when needed".to_owned(),
    }
}

/// Checks kprobes and uprobes.
pub(super) fn probes() -> Check {
    let has = |file: &str| {
        let mut files = TRACEFS.iter().map(|path| Path::new(path).join(file));
        files.any(|path| access(path, Access::WRITE_OK).is_ok())
    };
    let name = "kprobes, uprobes";
    match (has("kprobe_events"), has("uprobe_events")) {
        (true, true) => Check::works(name, "both work"),
        (false, true) => Check::works(name, "uprobes only"),
        (true, false) => Check::works(name, "kprobes only"),
        (false, false) => Check::works(name, "not supported by this kernel, or not permitted"),
    }
}

/// Checks the container that this process runs in.
pub(super) fn container() -> Check {
    let name = "container";
    let status = read("/proc/self/status").unwrap_or_default();
    let is_filtered = field(&status, "Seccomp") == Some("2");
    let is_mapped = read("/proc/self/uid_map").is_some_and(|map| !maps_all(&map));
    let is_inside = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let mut found = Vec::new();
    if is_inside {
        found.push("this is one".to_owned());
    }
    if is_mapped {
        found.push("users are mapped (user namespace)".to_owned());
    }
    if is_filtered {
        found.push("system calls are filtered (seccomp)".to_owned());
    }
    if let Some(limit) = read("/sys/fs/cgroup/memory.max").filter(|limit| limit != "max") {
        found.push(format!("memory is limited to {limit} bytes"));
    }
    if found.is_empty() {
        return Check::works(name, "none");
    }
    let found = found.join("; ");
    if is_mapped && is_root() {
        return Check::limited(name, found)
            .so("root here is not root of the machine, so the kernel refuses some data sources")
            .remedy("record outside of the container");
    }
    Check::works(name, found)
}

/// Returns true if a map of user ids (user_namespaces(7)) is the identity.
fn maps_all(map: &str) -> bool {
    let numbers: Vec<&str> = map.split_whitespace().collect();
    numbers == ["0", "0", "4294967295"]
}

/// Returns a field of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_are_found_by_name() {
        let status = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(field(status, "Seccomp"), Some("2"));
        assert_eq!(field(status, "CapEff"), None);
    }

    #[test]
    fn a_user_namespace_is_told_from_the_machine() {
        assert!(maps_all("         0          0 4294967295"));
        assert!(!maps_all("0 1000 1"));
    }
}
