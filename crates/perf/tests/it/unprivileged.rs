//! Tests of unprivileged users: their access to their own processes, and the advice they get
//! otherwise.
//!
//! Each test runs itself again as a separate user, since the kernel's limit on locked memory is
//! shared by all processes of a user.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::{at, burn, observe, plan, with_callstacks};
use ferretto_perf::config::Kernel;
use ferretto_perf::event::{OpenError, Scope, open_all};
use ferretto_perf::record::Record;
use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::UnwindMode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Runs `inner` as an unprivileged user: in a separate process if this one is root.
fn unprivileged(name: &str, user: u32, inner: fn()) {
    if !rustix::process::geteuid().is_root() {
        return inner();
    }
    let home = tempfile::tempdir().expect("a directory");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let program = home.path().join("test");
    // Copied by another process: a program that is open for writing, here or in a child that
    // another test is just starting, cannot be executed.
    let mut copy = Command::new("cp");
    copy.arg(std::env::current_exe().expect("a path"));
    assert!(copy.arg(&program).status().expect("cp").success());
    let mut command = Command::new(&program);
    command
        .args([name, "--exact", "--nocapture"])
        .uid(user)
        .gid(user)
        .current_dir("/");
    let output = command.output().expect("run");
    let outcome = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    outcome
        .lines()
        .filter(|line| line.contains("skipped:"))
        .for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{outcome}\n{errors}");
}

fn dwarf(frequency: u64) -> PerfEventConfig {
    with_callstacks(at(frequency), UnwindMode::UNWIND_DWARF, true)
}

fn of_pid(mut config: PerfEventConfig, pid: u32) -> PerfEventConfig {
    let callstacks = config.callstack_sampling.get_or_insert_default();
    callstacks.scope.get_or_insert_default().target_pid = vec![pid as i32];
    config
}

/// Returns true if users may observe their own processes here.
fn may_observe() -> bool {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let may = level.trim().parse::<i32>().is_ok_and(|level| level <= 2);
    if !may {
        println!("skipped: kernel.perf_event_paranoid is {level}");
    }
    may
}

#[test]
fn own_processes_are_sampled() {
    unprivileged("unprivileged::own_processes_are_sampled", 61_001, || {
        if !may_observe() {
            return;
        }
        let own = std::process::id();
        let plan = plan(&of_pid(dwarf(1000), own));
        let mut opened = open_all(&plan, &Kernel::default(), None).expect("opened");
        assert_eq!(
            opened.scope,
            Scope::Processes {
                pids: vec![own as i32],
                on_exec: false
            }
        );
        // Its future child processes are included.
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .expect("a shell");
        let (of_child, of_own) = (Cell::new(0), Cell::new(0));
        observe(
            &mut opened,
            |record| match record {
                Record::Sample(sample) => {
                    let of = if sample.pid == own {
                        &of_own
                    } else {
                        &of_child
                    };
                    assert_eq!(sample.counts.len(), 1);
                    assert!(sample.counts[0] > 0 && sample.callchain.kernel.is_empty());
                    assert!(sample.registers.is_some());
                    of.set(of.get() + u32::from(!sample.stack.is_empty()));
                }
                Record::Malformed { bytes } => panic!("{bytes} bytes are no record"),
                _ => {}
            },
            || of_own.get() > 2 && of_child.get() > 2,
        );
        child.kill().expect("killed");
        child.wait().expect("ended");
    });
}

#[test]
fn a_program_is_sampled_from_its_execution_on() {
    unprivileged(
        "unprivileged::a_program_is_sampled_from_its_execution_on",
        61_002,
        || {
            if !may_observe() {
                return;
            }
            let mut child = Command::new("sh")
                .args(["-c", "read line; exec sh -c 'while :; do :; done'"])
                .stdin(Stdio::piped())
                .spawn()
                .expect("a shell");
            let scope = Scope::Processes {
                pids: vec![child.id() as i32],
                on_exec: true,
            };
            let plan = plan(&dwarf(1000));
            let mut opened = open_all(&plan, &Kernel::default(), Some(&scope)).expect("opened");
            assert!(
                opened.user_only
                    || !opened
                        .notices
                        .iter()
                        .any(|notice| notice.contains("kernel's part"))
            );
            let mut input = child.stdin.take().expect("a pipe");
            input.write_all(b"go\n").expect("written");
            let (executed, seen) = (Cell::new(false), Cell::new(0));
            let pid = child.id();
            observe(
                &mut opened,
                |record| match record {
                    Record::Comm { pid: of, exec, .. } if of == pid => {
                        executed.set(executed.get() || exec)
                    }
                    Record::Sample(sample) => {
                        assert_eq!(sample.pid, pid);
                        seen.set(seen.get() + 1);
                    }
                    _ => {}
                },
                || seen.get() > 2,
            );
            assert!(executed.get());
            child.kill().expect("killed");
            child.wait().expect("ended");
        },
    );
}

#[test]
fn observing_everything_is_refused_with_advice() {
    unprivileged(
        "unprivileged::observing_everything_is_refused_with_advice",
        61_003,
        || {
            let kernel = Kernel::default();
            match open_all(&plan(&dwarf(10)), &kernel, None) {
                Ok(_) => println!("skipped: kernel.perf_event_paranoid permits everything"),
                Err(error @ OpenError::NotPermitted { .. }) => {
                    let outcome = error.to_string();
                    for part in [
                        "CPU 0: not permitted",
                        "sudo sysctl kernel.perf_event_paranoid=0",
                        "sudo setcap cap_perfmon",
                        "one's own processes alone can be observed without",
                    ] {
                        assert!(outcome.contains(part), "{outcome}");
                    }
                }
                Err(error) => panic!("{error}"),
            }
        },
    );
}

#[test]
fn the_error_has_advice_if_nothing_is_permitted() {
    unprivileged(
        "unprivileged::the_error_has_advice_if_nothing_is_permitted",
        61_004,
        || {
            // A process of root is refused as all processes are at level 3; the simulated setting
            // states this level.
            let home = tempfile::tempdir().expect("a directory");
            crate::common::kernel::put(home.path(), "sys/kernel/perf_event_paranoid", "3\n");
            crate::common::kernel::put(home.path(), "1/task/1/comm", "init");
            let kernel = Kernel {
                procfs: home.path().to_owned(),
                ..Kernel::default()
            };
            let error = match open_all(&plan(&of_pid(dwarf(10), 1)), &kernel, None) {
                Err(error @ OpenError::NotPermitted { .. }) => error.to_string(),
                other => return println!("skipped: {other:?}"),
            };
            for part in [
                "kernel.perf_event_paranoid is 3",
                "sudo sysctl kernel.perf_event_paranoid=2",
                "sudo setcap cap_perfmon",
                "CAP_PERFMON",
            ] {
                assert!(error.contains(part), "{error}");
            }
        },
    );
}

#[test]
fn perf_019_rings_shrink_to_what_may_be_locked_and_then_fail() {
    unprivileged(
        "unprivileged::perf_019_rings_shrink_to_what_may_be_locked_and_then_fail",
        61_005,
        || {
            if !may_observe() {
                return;
            }
            setrlimit(
                Resource::Memlock,
                Rlimit {
                    current: Some(0),
                    maximum: Some(0),
                },
            )
            .expect("less is always allowed");
            let plan = plan(&of_pid(dwarf(1000), std::process::id()));
            let kernel = Kernel::default();
            let mut all = vec![open_all(&plan, &kernel, None).expect("opened")];
            let notice = all[0]
                .notices
                .iter()
                .find(|notice| notice.contains("the rings have"));
            let notice = notice.expect("a notice");
            assert!(
                notice.contains("kernel.perf_event_mlock_kb")
                    && notice.contains("of each stack are copied")
            );
            let error = loop {
                assert!(all.len() < 10_000, "endless memory");
                match open_all(&plan, &kernel, None) {
                    Ok(opened) => all.push(opened),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, OpenError::Ring { .. }), "{error}");
            let outcome = error.to_string();
            assert!(
                outcome.contains("sudo sysctl kernel.perf_event_mlock_kb"),
                "{outcome}"
            );
            burn();
        },
    );
}

#[test]
fn the_limit_of_open_files_is_raised_to_the_hard_limit() {
    unprivileged(
        "unprivileged::the_limit_of_open_files_is_raised_to_the_hard_limit",
        61_006,
        || {
            if !may_observe() {
                return;
            }
            let hard = getrlimit(Resource::Nofile).maximum;
            let limit = |maximum| Rlimit {
                current: Some(20),
                maximum,
            };
            let own = plan(&of_pid(dwarf(10), std::process::id()));
            let threads: Vec<_> = (0..40)
                .map(|_| std::thread::spawn(std::thread::park))
                .collect();
            setrlimit(Resource::Nofile, limit(hard)).expect("less is always allowed");
            let opened = open_all(&own, &Kernel::default(), None).expect("opened");
            assert!(!opened.readers.is_empty());
            drop(opened);
            setrlimit(Resource::Nofile, limit(Some(20))).expect("less is always allowed");
            let refused = open_all(&own, &Kernel::default(), None).expect_err("refused");
            assert!(
                matches!(refused, OpenError::TooManyFiles { .. }),
                "{refused}"
            );
            assert!(refused.to_string().contains("ulimit -n"), "{refused}");
            for thread in threads {
                thread.thread().unpark();
                thread.join().expect("no panic");
            }
        },
    );
}
