//! CPU hotplug.

use super::scope::{Scope, target_of, threads};
use super::size::{self, ring_pages};
use super::{OpenError, Reader, open};
use crate::config::{Kernel, Plan};

/// Follows CPU hotplug: events of a CPU stop working once it was offline.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The scope of the events, without `enable_on_exec`: the command has been executed by the time
    /// a CPU comes online.
    scope: Scope,
    user_only: bool,
}

/// The changes since the last check.
#[derive(Debug, Default)]
pub struct Changes {
    /// The readers of CPUs that went offline, whose rings may contain records.
    pub gone: Vec<Reader>,
    /// CPUs that came online, with the errors of opening events there.
    pub failed: Vec<(u32, OpenError)>,
}

impl Watch {
    pub(super) fn new(scope: &Scope, user_only: bool) -> Self {
        let scope = match scope {
            Scope::Machine => Scope::Machine,
            Scope::Processes { pids, .. } => Scope::Processes {
                pids: pids.clone(),
                on_exec: false,
            },
        };
        Self { scope, user_only }
    }

    /// Checks which CPUs are online. Moves readers of offline CPUs out of `readers`; opens, enables
    /// and adds readers of new CPUs. Must be called regularly; a call reads one small file.
    pub fn follow(&self, plan: &Plan, kernel: &Kernel, readers: &mut Vec<Reader>) -> Changes {
        let online = plan.online_cpus(kernel);
        let is_gone = |reader: &mut Reader| !online.contains(&reader.cpu());
        let mut changes = Changes {
            gone: readers.extract_if(.., is_gone).collect(),
            failed: Vec::new(),
        };
        let is_new = |cpu: &&u32| !readers.iter().any(|reader| reader.cpu() == **cpu);
        let new: Vec<u32> = online.iter().filter(is_new).copied().collect();
        for cpu in new {
            match self.open(plan, kernel, cpu, online.len()) {
                Ok(reader) => readers.push(reader),
                // Offline again.
                Err(OpenError::NoSuchCpu { .. }) => {}
                Err(error) => changes.failed.push((cpu, error)),
            }
        }
        readers.sort_by_key(Reader::cpu);
        changes
    }

    fn open(
        &self,
        plan: &Plan,
        kernel: &Kernel,
        cpu: u32,
        rings: usize,
    ) -> Result<Reader, OpenError> {
        let tids = match &self.scope {
            Scope::Machine => Vec::new(),
            Scope::Processes { pids, .. } => threads(kernel, pids),
        };
        let target = target_of(&self.scope, &tids, self.user_only, cpu);
        let wanted = ring_pages(plan, rings);
        let mut pages = wanted;
        let mut reader = loop {
            let fitted = size::fitted(plan, pages, wanted);
            match open(&fitted, kernel, target, pages) {
                Err(error @ OpenError::Ring { .. }) => {
                    pages = size::smaller(plan, pages).ok_or(error)?;
                }
                reader => break reader?,
            }
        };
        reader.enable().map_err(|error| OpenError::Other {
            event: plan.timebase.describe(),
            cpu,
            error,
        })?;
        Ok(reader)
    }
}
