//! Access to the maps and the memory of processes.

use std::collections::BTreeMap;

use ferretto_client::Notice;

use crate::config::Kernel;
use crate::options::Options;
use crate::process::{Descriptors, LookupError, ProcessFolder};
use crate::registration::LINUX_PERF;

/// The largest number of processes whose descriptors are kept before their first sample.
const MAX_HANDED_OVER: usize = 256;

/// Opens maps and memory of processes, or receives them from the processes.
#[derive(Debug)]
pub(crate) struct Lookup {
    options: Options,
    /// Received descriptors by process.
    handed_over: BTreeMap<u32, Descriptors>,
    has_reported: bool,
    /// Remarks on failed access, for the trace.
    remarks: Vec<String>,
}

impl Lookup {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            handed_over: BTreeMap::new(),
            has_reported: false,
            remarks: Vec::new(),
        }
    }

    /// Stores descriptors that a process has sent, for all current and future data sources.
    pub(crate) fn hand_over(&mut self, pid: u32, descriptors: Descriptors) {
        if self.handed_over.len() >= MAX_HANDED_OVER {
            self.handed_over
                .retain(|&pid, _| ProcessFolder::open(pid).is_ok());
        }
        if self.handed_over.len() < MAX_HANDED_OVER {
            self.handed_over.insert(pid, descriptors);
        }
    }

    /// Returns the descriptors of a process. `folder` is its directory in `/proc`, if it could be
    /// opened.
    pub(super) fn descriptors(
        &mut self,
        pid: u32,
        folder: Result<ProcessFolder, LookupError>,
    ) -> Result<Descriptors, LookupError> {
        let folder = folder?;
        let error = if self.options.only_handed_over {
            LookupError::Denied(rustix::io::Errno::ACCESS)
        } else {
            match folder.descriptors() {
                Ok(descriptors) => return Ok(descriptors),
                Err(error) => error,
            }
        };
        if let Some(descriptors) = self.handed_over.get(&pid) {
            return Ok(descriptors.try_clone()?);
        }
        let is_reported = matches!(error, LookupError::Gone) || self.options.only_handed_over;
        // Once, since many processes will fail in the same way.
        if !is_reported && !std::mem::replace(&mut self.has_reported, true) {
            self.remark(error.to_string());
        }
        Err(error)
    }

    /// Takes the remarks since the last call.
    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Returns the paths of the kernel's files.
    pub(super) fn kernel(&self) -> &Kernel {
        &self.options.kernel
    }

    /// Reports failed access.
    pub(super) fn remark(&mut self, reason: String) {
        self.remarks.push(reason.clone());
        self.options.daemon.notify(Notice::Remark {
            source: LINUX_PERF.to_owned(),
            text: reason,
        });
    }
}
