//! Opening everything that a plan needs.

use std::fs;

use super::open::ring_pages;
use super::{OpenError, Reader, Target, open};
use crate::config::{Kernel, Plan};
use crate::cpus;

/// What to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All tasks of the plan's CPUs.
    Machine,
    /// All threads of some processes, and all threads and processes that they start from now on. Users may do this
    /// with their own processes, without the kernel's part, unless the administrator has forbidden everything.
    Processes {
        /// The processes.
        pids: Vec<i32>,
        /// Count only from when they execute a program: for a child that is about to.
        on_exec: bool,
    },
}

/// Everything that a plan needs, opened.
#[derive(Debug)]
pub struct Opened {
    /// One for each CPU, ascending.
    pub readers: Vec<Reader>,
    /// What they observe. With [`Scope::Processes`] there are only samples of these and of what they started, so
    /// the plan's filter by process has been applied, and must not be applied again.
    pub scope: Scope,
    /// Whether the kernel's part had to be left out, for want of privileges.
    pub user_only: bool,
    /// What the user should know, one sentence each.
    pub notices: Vec<String>,
}

/// Opens the events of a plan on all its CPUs; nothing is enabled yet.
///
/// Without a `scope` it is the whole machine; if that is not permitted and the plan is about processes that it names
/// by number, only these.
///
/// # Errors
///
/// As [`OpenError`] says. A CPU that cannot be opened is left out if the plan says so.
pub fn open_all(plan: &Plan, kernel: &Kernel, scope: Option<&Scope>) -> Result<Opened, OpenError> {
    let machine = match scope {
        Some(Scope::Processes { pids, on_exec }) => {
            return open_processes(plan, kernel, pids, *on_exec);
        }
        Some(Scope::Machine) | None => open_machine(plan, kernel),
    };
    match (machine, plan.filter.only_pids()) {
        (Err(OpenError::NotPermitted { .. }), Some(pids)) if scope.is_none() => {
            open_processes(plan, kernel, pids, false)
        }
        (machine, _) => machine,
    }
}

fn open_machine(plan: &Plan, kernel: &Kernel) -> Result<Opened, OpenError> {
    open_cpus(plan, kernel, Scope::Machine, false, Target::Cpu)
}

fn open_processes(
    plan: &Plan,
    kernel: &Kernel,
    pids: &[i32],
    on_exec: bool,
) -> Result<Opened, OpenError> {
    let tids = threads(kernel, pids);
    if tids.is_empty() {
        let pids = pids.to_vec();
        return Err(OpenError::NoSuchProcess { pids });
    }
    let attempt = |user_only| {
        let scope = Scope::Processes {
            pids: pids.to_vec(),
            on_exec,
        };
        open_cpus(plan, kernel, scope, user_only, |cpu| Target::Tasks {
            cpu,
            tids: &tids,
            on_exec,
            user_only,
        })
    };
    match attempt(false) {
        Err(OpenError::NotPermitted { .. }) => {}
        opened => return opened,
    }
    let mut opened = attempt(true)?;
    opened.notices.push(
        "the kernel's part of the processes is left out, as this user may not observe it (kernel.perf_event_paranoid)"
            .to_owned(),
    );
    Ok(opened)
}

/// The threads of processes.
fn threads(kernel: &Kernel, pids: &[i32]) -> Vec<i32> {
    let mut tids = Vec::new();
    for pid in pids {
        let entries = fs::read_dir(kernel.procfs.join(format!("{pid}/task")));
        let names = entries.into_iter().flatten().flatten();
        tids.extend(names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()));
    }
    tids.sort_unstable();
    tids.dedup();
    tids
}

fn open_cpus<'a>(
    plan: &Plan,
    kernel: &Kernel,
    scope: Scope,
    user_only: bool,
    target: impl Fn(u32) -> Target<'a>,
) -> Result<Opened, OpenError> {
    let cpus = plan.online_cpus(kernel);
    if cpus.is_empty() && plan.cpus.id_prefixes.is_empty() {
        let online = cpus::online(kernel);
        return Err(OpenError::NoCpus { online });
    }
    let mut opened = Opened {
        readers: Vec::new(),
        scope,
        user_only,
        notices: Vec::new(),
    };
    let mut pages = ring_pages(plan, cpus.len());
    let wanted = pages;
    for cpu in cpus {
        match open(plan, kernel, target(cpu), pages) {
            Ok(reader) => {
                // What one ring did not get the next will not get either.
                pages = pages.min((reader.ring_size() / rustix::param::page_size()) as u32);
                opened.readers.push(reader);
            }
            // Gone since they were listed.
            Err(OpenError::NoSuchCpu { .. }) => {}
            Err(error) if plan.ignore_open_failure => {
                opened
                    .notices
                    .push(format!("CPU {cpu} is left out: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    if pages < wanted {
        opened.notices.push(format!(
            "the rings have {pages} pages instead of {wanted}, as this user may not lock more memory \
             (kernel.perf_event_mlock_kb, ulimit -l): samples may be lost at high rates"
        ));
    }
    Ok(opened)
}
