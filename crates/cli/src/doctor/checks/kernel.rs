//! The kernel and its events.

use std::path::Path;

use ferretto_probes::availability;
use rustix::fs::{Access, access};

use super::super::check::Check;
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
