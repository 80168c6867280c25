//! All ftrace data sources of this process.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use ferretto_proto::FtraceConfig;
use ferretto_symbols::{KernelSymbols, LoadError};

use super::config::FtraceOptions;
use super::error::SetupError;
use super::instance::{Instance, Scratch, TICK};
use super::kernel_state::KernelError;
use super::metadata::Metadata;
use super::own_instance::OwnInstance;
use super::tracefs::Tracefs;
use super::watermark;
use crate::PacketSink;

/// The owner of the kernel's tracing while any ftrace data source exists.
///
/// Restores the kernel's state on drop.
#[derive(Debug, Default)]
pub struct Controller {
    instances: BTreeMap<String, Instance>,
    scratch: Scratch,
    symbols: Weak<KernelSymbols>,
}

impl Controller {
    /// Creates a controller without data sources. Does not access the kernel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets up a data source: takes over its tracefs instance for the first data source there, and
    /// enables its events. Recording starts with [`Controller::start`].
    ///
    /// # Errors
    ///
    /// Fails if the config, the kernel or another data source prevents it. The kernel's state is
    /// then restored.
    pub fn set_up(
        &mut self,
        id: u64,
        config: &FtraceConfig,
        sink: Box<dyn PacketSink>,
    ) -> Result<(), SetupError> {
        let options = FtraceOptions::new(config)?;
        let name = options.instance.clone();
        if !self.instances.contains_key(&name) {
            let fs = Tracefs::find_or_mount()?.instance(&name)?;
            self.instances.insert(name.clone(), open(fs, &options)?);
        }
        let symbols = options.symbolize.then(|| self.kernel_symbols());
        let Some(instance) = self.instances.get_mut(&name) else {
            return Ok(());
        };
        let added = instance.add(id, options, symbols, sink);
        self.close_unused();
        added
    }

    /// Starts recording. An unknown id is ignored.
    ///
    /// # Errors
    ///
    /// Fails if tracing cannot be enabled; the data source still counts as started.
    pub fn start(&mut self, id: u64) -> Result<(), KernelError> {
        match self
            .instances
            .values_mut()
            .find(|instance| instance.has(id))
        {
            Some(instance) => instance.start(id),
            None => Ok(()),
        }
    }

    /// Ends a data source: reads its remaining events, then releases the settings that only it
    /// used.
    pub fn stop(&mut self, id: u64) {
        if let Some(instance) = self
            .instances
            .values_mut()
            .find(|instance| instance.has(id))
        {
            instance.remove(id, &mut self.scratch);
        }
        self.close_unused();
    }

    /// Reads a limited number of pages. Returns true if there is more to read at once.
    pub fn read(&mut self) -> bool {
        let mut more = false;
        for instance in self.instances.values_mut() {
            more |= instance.read(TICK, &mut self.scratch);
        }
        more
    }

    /// Returns the descriptors that become readable when a kernel buffer fills up to the level that
    /// a data source requests.
    pub fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.instances
            .values()
            .flat_map(Instance::watched)
            .collect()
    }

    /// Like [`Controller::read`], for the instances with a buffer that has reached the requested
    /// level; `None` if there are none.
    pub fn read_filled(&mut self) -> Option<bool> {
        let mut result = None;
        for instance in self.instances.values_mut() {
            if instance
                .watched()
                .any(|reader| watermark::state(reader).unwrap_or(false))
            {
                let more = instance.read(TICK, &mut self.scratch);
                result = Some(result.unwrap_or(false) | more);
            }
        }
        result
    }

    /// Reads everything recorded so far; then writes statistics for the data sources `ids` and
    /// flushes their writers.
    pub fn flush(&mut self, ids: &[u64]) {
        for instance in self.instances.values_mut() {
            instance.drain(&mut self.scratch);
            instance.finish_flush(ids);
        }
    }

    /// Passes on the metadata since the last call, by data source.
    pub(crate) fn take_metadata(&mut self, mut use_it: impl FnMut(u64, &Metadata)) {
        for instance in self.instances.values_mut() {
            for source in instance
                .sources()
                .iter_mut()
                .filter(|source| source.started)
            {
                use_it(source.id, &source.metadata);
                source.metadata.clear();
            }
        }
    }

    /// Returns the time between calls of [`Controller::read`] in milliseconds; `None` if no data
    /// source is running.
    pub fn drain_period_ms(&self) -> Option<u32> {
        self.instances
            .values()
            .filter_map(Instance::drain_period_ms)
            .min()
    }

    fn close_unused(&mut self) {
        let unused: Vec<String> = self
            .instances
            .iter()
            .filter(|(_, instance)| instance.is_unused())
            .map(|(name, _)| name.clone())
            .collect();
        for name in unused {
            if let Some(instance) = self.instances.remove(&name) {
                instance.close();
            }
        }
    }

    fn kernel_symbols(&mut self) -> Result<Arc<KernelSymbols>, LoadError> {
        if let Some(symbols) = self.symbols.upgrade() {
            return Ok(symbols);
        }
        let symbols = Arc::new(KernelSymbols::load()?);
        self.symbols = Arc::downgrade(&symbols);
        Ok(symbols)
    }
}

/// Takes over an instance. If another process records at the top level, a separate instance is
/// created; both receive all events then.
fn open(fs: Tracefs, options: &FtraceOptions) -> Result<Instance, SetupError> {
    match Instance::open(fs.clone(), options) {
        Err(KernelError::Claimed { .. })
            if options.instance.is_empty() && !options.preserve_buffer =>
        {
            let own = OwnInstance::create()?;
            let fs = fs.instance(own.name())?;
            Ok(Instance::open_own(fs, own, options)?)
        }
        opened => Ok(opened?),
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        for (_, instance) in std::mem::take(&mut self.instances) {
            instance.close();
        }
    }
}
