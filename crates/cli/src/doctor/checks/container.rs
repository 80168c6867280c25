//! The container that this process runs in.

use std::path::Path;

use ferretto_probes::availability;
use rustix::thread::{CapabilitySet, capabilities};

use super::super::check::Check;
use super::{is_root, read};
use crate::namespaces;

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
    if namespaces::has_own_pids() {
        found.push("processes have ids of their own (pid namespace)".to_owned());
    }
    if is_filtered {
        found.push("system calls are filtered (seccomp)".to_owned());
    }
    let held = capabilities(None).map(|held| held.effective);
    let has_perfmon =
        held.is_ok_and(|held| held.intersects(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN));
    if is_root() && !has_perfmon {
        found.push("root lacks CAP_PERFMON".to_owned());
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

/// Checks whose process ids recordings have.
pub(super) fn process_ids() -> Check {
    let name = "process ids";
    let events = availability();
    let has_events = !events.iter().any(|found| found.source == "linux.ftrace");
    if !namespaces::has_own_pids() {
        return Check::works(name, "those of the machine");
    }
    let found = "those of a pid namespace";
    if has_events {
        return Check::limited(name, format!("{found}, except in kernel events"))
            .so("kernel events have the machine's ids, so a thread may get the name of another")
            .remedy("record outside of the container")
            .remedy("share the machine's ids with the container (docker run --pid=host)");
    }
    Check::works(
        name,
        format!("{found}, in all that is recorded; other processes of the machine are invisible"),
    )
}

/// Checks the counters of control groups.
pub(super) fn control_groups() -> Check {
    let name = "control groups";
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let has = |kind: &str| mounts.lines().any(|line| line.contains(kind));
    let version = match (has(" - cgroup2 "), has(" - cgroup ")) {
        (true, false) => "version 2",
        (false, true) => "version 1",
        (true, true) => "versions 1 and 2",
        (false, false) => {
            return Check::limited(name, "are not mounted")
                .so("recordings have no counters of containers and units")
                .remedy("mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        }
    };
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let own = ferretto_format::cgroup::of_process(&own).unwrap_or("/");
    Check::works(
        name,
        format!("{version}, readable; this process is in {own}"),
    )
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
