//! Requirements of the profiler.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use ferretto_perf::config::{Kernel, Plan};
use ferretto_perf::event::{OpenError, Scope, open_all};
use ferretto_proto::perf_event_config::CallstackSampling;
use ferretto_proto::perf_events::{Counter, Timebase, timebase};
use ferretto_proto::{Message, MessageField, PerfEventConfig};
use ferretto_text::amount::human_bytes;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::super::check::Check;
use super::{is_root, read};

/// The size in bytes of a CPU's ring below which samples are lost.
const SMALLEST_RINGS: u64 = 128 << 10;

/// Checks which processes can be profiled, by opening the events as a recording does.
pub(super) fn callstacks() -> Check {
    let name = "callstacks";
    let me = Scope::Processes {
        pids: vec![std::process::id() as i32],
        on_exec: false,
    };
    let machine = match attempt(&Scope::Machine) {
        Ok(_) => return Check::works(name, "of all processes and of the kernel"),
        Err(error) => error,
    };
    let setting = paranoid();
    match attempt(&me) {
        Ok(user_only) => {
            let part = if user_only {
                ", without the kernel's part"
            } else {
                ""
            };
            let check = Check::limited(name, format!("of your own processes only{part}{setting}"))
                .so("record --perf needs a command or -p PID");
            on_permission(check, "0")
        }
        Err(OpenError::NotPermitted { .. }) => {
            let check = Check::missing(name, format!("the kernel refuses perf events{setting}"))
                .so("no record --perf");
            on_permission(check, "1")
        }
        Err(_) => Check::missing(name, machine.to_string()).so("no record --perf"),
    }
}

/// Opens the events of `record --perf`, and closes them. Returns true if kernel frames have to be
/// left out.
fn attempt(scope: &Scope) -> Result<bool, OpenError> {
    let config = PerfEventConfig {
        timebase: MessageField::some(Timebase {
            interval: Some(timebase::Interval::Frequency(1)),
            event: Some(timebase::Event::Counter(Counter::SW_CPU_CLOCK)),
            ..Default::default()
        }),
        callstack_sampling: MessageField::some(CallstackSampling {
            kernel_frames: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    };
    let kernel = Kernel::default();
    let plan = Plan::new(&config.encode_to_vec(), &kernel).expect("the config is a constant");
    open_all(&plan, &kernel, Some(scope)).map(|opened| opened.user_only)
}

fn on_permission(check: Check, level: &str) -> Check {
    if is_root() {
        return check.remedy(
            "allow CAP_PERFMON and perf_event_open in this container (docker run --cap-add PERFMON)",
        );
    }
    check
        .remedy("sudo ferretto record --perf")
        .remedy(format!("sudo sysctl kernel.perf_event_paranoid={level}"))
}

fn paranoid() -> String {
    read("/proc/sys/kernel/perf_event_paranoid").map_or_else(String::new, |level| {
        format!(" (kernel.perf_event_paranoid is {level})")
    })
}

/// Checks which events can trigger samples.
pub(super) fn counters() -> Check {
    let has_cycles = ["cpu", "cpu_core", "armv8_pmuv3_0", "armv8_pmuv3"]
        .iter()
        .any(|unit| {
            Path::new("/sys/bus/event_source/devices")
                .join(unit)
                .exists()
        });
    let found = if has_cycles {
        "the processor's (cycles, cache misses and so on) and the kernel's"
    } else {
        // Virtual machines rarely have others, and sampling by time is the usual choice.
        "the kernel's only, as in most virtual machines; samples are taken by time"
    };
    Check::works("perf counters", found)
}

/// Checks the limit of locked memory, which the rings of samples use.
pub(super) fn locked_memory() -> Check {
    let name = "locked memory";
    let held = capabilities(None).map(|held| held.effective);
    if held.is_ok_and(|held| held.contains(CapabilitySet::IPC_LOCK)) {
        return Check::works(name, "any amount, for rings of samples");
    }
    let limit = getrlimit(Resource::Memlock).current;
    let Some(of_user) = limit else {
        return Check::works(name, "any amount, for rings of samples");
    };
    let for_each_cpu = read("/proc/sys/kernel/perf_event_mlock_kb");
    let for_each_cpu = for_each_cpu.and_then(|kb| kb.parse::<u64>().ok());
    let for_each_cpu = for_each_cpu.unwrap_or(0).saturating_mul(1024);
    let found = format!(
        "{} for each CPU, for rings of samples, and {}",
        human_bytes(for_each_cpu),
        human_bytes(of_user)
    );
    if for_each_cpu.saturating_add(of_user) < SMALLEST_RINGS {
        return Check::limited(name, found)
            .so("record --perf loses samples or cannot start")
            .remedy("sudo sysctl kernel.perf_event_mlock_kb=516")
            .remedy("ulimit -l unlimited as root, or LimitMEMLOCK= of the service");
    }
    Check::works(name, found)
}

/// Checks if functions of the kernel have names.
pub(super) fn kernel_names() -> Check {
    let name = "kernel functions";
    let list = File::open("/proc/kallsyms").map(BufReader::new);
    let shown = list.is_ok_and(|list| {
        let mut lines = list.lines().take(100).map_while(Result::ok);
        lines.any(|line| {
            line.bytes()
                .take_while(|byte| *byte != b' ')
                .any(|digit| digit != b'0')
        })
    });
    if shown {
        return Check::works(name, "have names (/proc/kallsyms shows addresses)");
    }
    let setting = read("/proc/sys/kernel/kptr_restrict");
    let setting = setting.unwrap_or_else(|| "unknown".to_owned());
    // The recorder lowers the setting while it reads the list, if permitted.
    if is_root()
        && setting == "2"
        && File::options()
            .write(true)
            .open("/proc/sys/kernel/kptr_restrict")
            .is_ok()
    {
        return Check::works(
            name,
            "have names (kernel.kptr_restrict is lowered while they are read)",
        );
    }
    let check = Check::limited(
        name,
        format!("have no names (kernel.kptr_restrict is {setting})"),
    )
    .so("kernel frames are addresses, and the functions where threads block are unknown");
    if is_root() {
        check.remedy("sysctl kernel.kptr_restrict=1")
    } else {
        check
            .remedy("sudo ferretto record --perf")
            .remedy("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1")
    }
}

/// Checks if memory and maps of other processes are readable.
pub(super) fn other_processes() -> Check {
    let name = "other processes";
    let held = capabilities(None).map(|held| held.effective);
    if held.is_ok_and(|held| held.contains(CapabilitySet::SYS_PTRACE)) {
        return Check::works(name, "of all users can be unwound");
    }
    let scope = read("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref() {
        None | Some("0") if is_root() => {
            Check::limited(name, "of your own only (root lacks CAP_SYS_PTRACE)")
                .so("callstacks of other users' processes are not unwound")
                .remedy("allow CAP_SYS_PTRACE in this container (docker run --cap-add SYS_PTRACE)")
        }
        None | Some("0") => Check::limited(name, "of your own only")
            .so("callstacks of other users' processes are not unwound")
            .remedy("sudo ferretto record --perf"),
        Some(level) => Check::limited(
            name,
            format!("only those that ferretto started (kernel.yama.ptrace_scope is {level})"),
        )
        .so("record --perf -p PID needs more")
        .remedy("sudo ferretto record --perf -p PID")
        .remedy("sudo sysctl kernel.yama.ptrace_scope=0"),
    }
}
