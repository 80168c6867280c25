//! Getting at the maps and the memory of processes.

use std::collections::BTreeMap;

use ferretto_client::Notice;

use crate::config::Kernel;
use crate::options::Options;
use crate::process::{Descriptors, LookupError, ProcessFolder};
use crate::registration::LINUX_PERF;

/// The most processes whose descriptors are kept before there is a sample of them.
const MAX_HANDED_OVER: usize = 256;

/// Opens maps and memory of processes, or has had them handed over.
#[derive(Debug)]
pub(crate) struct Lookup {
    options: Options,
    /// By process.
    handed_over: BTreeMap<u32, Descriptors>,
    has_reported: bool,
    /// Obstacles that were met, for the trace.
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

    /// A process has handed its descriptors over, for every data source now and later.
    pub(crate) fn hand_over(&mut self, pid: u32, descriptors: Descriptors) {
        if self.handed_over.len() >= MAX_HANDED_OVER {
            self.handed_over
                .retain(|&pid, _| ProcessFolder::open(pid).is_ok());
        }
        if self.handed_over.len() < MAX_HANDED_OVER {
            self.handed_over.insert(pid, descriptors);
        }
    }

    /// Descriptors of a process of whose folder in `/proc` this is, as far as it could be opened.
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
        // Once: it will be so for many processes.
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

    /// Reports an obstacle.
    pub(super) fn remark(&mut self, reason: String) {
        self.remarks.push(reason.clone());
        self.options.daemon.notify(Notice::Remark {
            source: LINUX_PERF.to_owned(),
            text: reason,
        });
    }
}
