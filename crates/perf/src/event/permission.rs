//! The system's permissions, and advice on missing ones.

use std::fs;

use crate::config::Kernel;

/// Returns the system's setting `kernel.perf_event_paranoid`.
pub(crate) fn paranoid(kernel: &Kernel) -> Option<i32> {
    sysctl(kernel, "perf_event_paranoid")
}

/// Returns a numeric setting of the kernel.
pub(super) fn sysctl<T: std::str::FromStr>(kernel: &Kernel, name: &str) -> Option<T> {
    let path = kernel.procfs.join("sys/kernel").join(name);
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The target whose observation the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All tasks of a CPU.
    Cpu,
    /// Tasks, without the kernel.
    Task,
}

/// Returns advice to the user or the administrator.
pub(super) fn advice(wanted: Wanted, paranoid: Option<i32>) -> String {
    if rustix::process::geteuid().is_root() {
        return "root is without CAP_PERFMON here, as in many containers: allow it there (docker run --cap-add PERFMON \
                --cap-add SYS_PTRACE, and a seccomp profile that permits perf_event_open)"
            .to_owned();
    }
    let program = std::env::current_exe()
        .map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
    let level = match wanted {
        Wanted::Cpu => 0,
        Wanted::Task => 2,
    };
    let mut advice = match wanted {
        Wanted::Cpu => "whole CPUs, and so all processes, can be observed as root only; or ask the administrator for one of: ".to_owned(),
        Wanted::Task if paranoid.is_some_and(|is| is <= level) => {
            "one's own processes can be observed, but not those of other users, nor programs with more \
             privileges; run as root, or ask the administrator for one of: "
                .to_owned()
        }
        Wanted::Task => "ask the administrator for one of: ".to_owned(),
    };
    if paranoid.is_none_or(|is| is > level) {
        advice += &format!("sudo sysctl kernel.perf_event_paranoid={level}; ");
    }
    advice += &format!(
        "sudo setcap cap_perfmon,cap_sys_ptrace,cap_ipc_lock,cap_syslog+ep {program} (CAP_PERFMON and what goes with it)"
    );
    if wanted == Wanted::Cpu {
        advice += "; one's own processes alone can be observed without, up to a setting of 2 (name them by pid)";
    }
    advice
}

/// Returns advice on missing memory for rings.
pub(super) fn ring_advice(kernel: &Kernel) -> String {
    let kb: Option<u64> = sysctl(kernel, "perf_event_mlock_kb");
    let kb = kb.map_or("unknown".to_owned(), |kb| kb.to_string());
    format!(
        "; rings of one user may take {kb} KiB a CPU (kernel.perf_event_mlock_kb) and what `ulimit -l` allows; ask the \
         administrator for more: sudo sysctl kernel.perf_event_mlock_kb=4100, or CAP_IPC_LOCK"
    )
}
