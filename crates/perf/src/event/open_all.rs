//! Opening of all events of a plan.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::scope::{Scope, target_of, threads};
use super::size::{self, ring_pages};
use super::{OpenError, Reader, Target, Watch, open};
use crate::config::{Kernel, Plan};
use crate::cpus;

/// All open events of a plan.
#[derive(Debug)]
pub struct Opened {
    /// A reader for each CPU, ascending.
    pub readers: Vec<Reader>,
    /// The observed part of the machine. [`Scope::Processes`] yields only samples of these
    /// processes and of their descendants, so the plan's filter by process has been applied, and
    /// must not be applied again.
    pub scope: Scope,
    /// Set if the kernel is excluded because of missing privileges.
    pub user_only: bool,
    /// Notices for the user.
    pub notices: Vec<String>,
}

impl Opened {
    /// Returns a watch of CPU hotplug.
    pub fn watch(&self) -> Watch {
        Watch::new(&self.scope, self.user_only)
    }
}

/// Opens the events of a plan on all its CPUs, disabled.
///
/// Without a `scope` the whole machine is observed. If that is not permitted and the plan selects
/// only processes by id, only these are observed.
///
/// # Errors
///
/// See [`OpenError`]. A CPU that fails is skipped if the plan allows that.
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
            // Smaller rings on all CPUs, instead of none for the last ones.
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
    if readers.iter().any(Reader::lacks_followers) {
        notices.push(
            "the followers are left out: before Linux 6.12, the kernel cannot count them for processes and their \
             descendants; record the whole machine to have them"
                .to_owned(),
        );
    }
    Ok(Opened {
        readers,
        scope,
        user_only,
        notices,
    })
}

/// Raises this process's limit of descriptors to its hard limit. Returns true if that is higher.
/// Each event of each thread on each CPU takes a descriptor, and the usual soft limit is meant for
/// other programs.
fn raise_file_limit() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    raised.current != limit.current && setrlimit(Resource::Nofile, raised).is_ok()
}

/// The readers, and the failed CPUs with the errors.
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
            // The CPU went offline since the list was read.
            Err(OpenError::NoSuchCpu { .. }) => {}
            // The same error would occur on every CPU.
            Err(error @ OpenError::NotPermitted { .. }) => return Err(error),
            // The caller has a remedy.
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
