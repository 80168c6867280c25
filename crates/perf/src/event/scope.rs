//! Opening everything that a plan needs.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::size::{self, ring_pages};
use super::{OpenError, Reader, Target, Watch, open};
use crate::config::{Kernel, Plan};
use crate::cpus;

/// The part of the machine to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All tasks of the plan's CPUs.
    Machine,
    /// All threads of some processes, and all threads and processes that they start from now on.
    /// Users may do this with their own processes, without the kernel's part, unless the
    /// administrator has forbidden everything.
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
    /// The part of the machine that the readers observe. With [`Scope::Processes`] there are only
    /// samples of these and of their descendants, so the plan's filter by process has been applied,
    /// and must not be applied again.
    pub scope: Scope,
    /// Set if the kernel's part had to be left out, for want of privileges.
    pub user_only: bool,
    /// Sentences for the user.
    pub notices: Vec<String>,
}

impl Opened {
    /// For CPUs that come and go while this is in use.
    pub fn watch(&self) -> Watch {
        Watch::new(&self.scope, self.user_only)
    }
}

/// Opens the events of a plan on all its CPUs; nothing is enabled yet.
///
/// Without a `scope` it is the whole machine; if that is not permitted and the plan is about
/// processes that it names by number, only these.
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
    open_cpus(plan, kernel, Scope::Machine, &[], false)
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
        let pids = pids.to_vec();
        let scope = Scope::Processes { pids, on_exec };
        open_cpus(plan, kernel, scope, &tids, user_only)
    };
    match attempt(false) {
        Err(OpenError::NotPermitted { .. }) => {}
        opened => return opened,
    }
    let mut opened = attempt(true)?;
    opened.notices.push(
        "the kernel's part of the processes is left out, as this user may not observe it \
         (kernel.perf_event_paranoid is above 1)"
            .to_owned(),
    );
    Ok(opened)
}

/// Returns the tasks to observe on one CPU.
pub(super) fn target_of<'a>(
    scope: &Scope,
    tids: &'a [i32],
    user_only: bool,
    cpu: u32,
) -> Target<'a> {
    match scope {
        Scope::Machine => Target::Cpu(cpu),
        Scope::Processes { on_exec, .. } => Target::Tasks {
            cpu,
            tids,
            on_exec: *on_exec,
            user_only,
        },
    }
}

/// The threads of processes.
pub(super) fn threads(kernel: &Kernel, pids: &[i32]) -> Vec<i32> {
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

fn open_cpus(
    plan: &Plan,
    kernel: &Kernel,
    scope: Scope,
    tids: &[i32],
    user_only: bool,
) -> Result<Opened, OpenError> {
    let cpus = plan.online_cpus(kernel);
    if cpus.is_empty() && plan.cpus.id_prefixes.is_empty() {
        let online = cpus::online(kernel);
        return Err(OpenError::NoCpus { online });
    }
    let wanted = ring_pages(plan, cpus.len());
    let mut pages = wanted;
    let (readers, failures) = loop {
        let target = |cpu| target_of(&scope, tids, user_only, cpu);
        let fitted = size::fitted(plan, pages, wanted);
        match open_with(&fitted, kernel, &cpus, target, pages) {
            // Smaller ones on all CPUs, instead of nothing for the last.
            Err(error @ OpenError::Ring { .. }) => {
                pages = size::smaller(plan, pages).ok_or(error)?;
            }
            Err(OpenError::TooManyFiles { .. }) if raise_file_limit() => {}
            readers => break readers?,
        }
    };
    let left_out = |(cpu, error)| format!("CPU {cpu} is left out: {error}");
    let mut notices: Vec<_> = failures.into_iter().map(left_out).collect();
    if pages < wanted {
        notices.push(size::notice(plan, pages, wanted));
    }
    Ok(Opened {
        readers,
        scope,
        user_only,
        notices,
    })
}

/// Allows this process as many descriptors as it may allow itself; whether that is more than
/// before. Each event of each thread on each CPU takes one, and the usual limit is there for
/// programs that cannot handle more.
fn raise_file_limit() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    raised.current != limit.current && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Readers, and CPUs that are to be left out with the reason.
type Outcome = (Vec<Reader>, Vec<(u32, OpenError)>);

fn open_with<'a>(
    plan: &Plan,
    kernel: &Kernel,
    cpus: &[u32],
    target: impl Fn(u32) -> Target<'a>,
    pages: u32,
) -> Result<Outcome, OpenError> {
    let (mut readers, mut failures) = (Vec::new(), Vec::new());
    for &cpu in cpus {
        match open(plan, kernel, target(cpu), pages) {
            Ok(reader) => readers.push(reader),
            // Gone since they were listed.
            Err(OpenError::NoSuchCpu { .. }) => {}
            // It would be the same on every CPU.
            Err(error @ OpenError::NotPermitted { .. }) => return Err(error),
            // There is more to be tried.
            Err(error @ OpenError::TooManyFiles { .. }) => return Err(error),
            Err(error @ OpenError::Ring { .. }) if size::smaller(plan, pages).is_some() => {
                return Err(error);
            }
            Err(error) if plan.ignore_open_failure => failures.push((cpu, error)),
            Err(error) => return Err(error),
        }
    }
    Ok((readers, failures))
}
