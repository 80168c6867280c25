//! Registered data sources, as the engine sees them.

use std::sync::Mutex;

use ferretto_engine::{Completion, FlushFlags, Setup, Slots, Source, Target, lock};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};
use ferretto_shm::fork::PerProcess;

use super::{DataSource, Instance};

/// A user's data source and its instances.
pub(super) struct Registered<D: DataSource> {
    pub(super) source: D,
    pub(super) slots: Slots<Instance<D>>,
    descriptor: DataSourceDescriptor,
    updated: PerProcess<Mutex<Option<DataSourceDescriptor>>>,
}

impl<D: DataSource> Registered<D> {
    pub(super) fn new(source: D, descriptor: DataSourceDescriptor) -> Self {
        Self {
            source,
            slots: Slots::new(),
            descriptor,
            updated: PerProcess::new(),
        }
    }

    pub(super) fn set_descriptor(&self, mut descriptor: DataSourceDescriptor) {
        descriptor.name.clone_from(&self.descriptor.name);
        *lock(self.updated.get_or_init(Mutex::default)) = Some(descriptor);
    }

    fn with_instance(&self, slot: usize, act: impl FnOnce(&D, &Instance<D>)) {
        if let Some(instance) = self.slots.peek(slot) {
            act(&self.source, &instance);
        }
    }
}

/// The engine's interface to a data source.
pub(super) struct Engaged<D: DataSource>(pub(super) &'static Registered<D>);

impl<D: DataSource> Source for Engaged<D> {
    fn descriptor(&self) -> DataSourceDescriptor {
        let updated = self.0.updated.get();
        let updated = updated.and_then(|updated| lock(updated).clone());
        updated.unwrap_or_else(|| self.0.descriptor.clone())
    }

    fn setup(&self, slot: usize, setup: Setup) {
        let writers = setup.writers.clone();
        let data = self.0.source.setup(&setup.config);
        let settings = Instance::new(slot, setup, data);
        self.0.slots.prepare(slot, Target { writers, settings });
    }

    fn start(&self, slot: usize) {
        if self.0.slots.peek(slot).is_some() {
            self.0.slots.start(slot);
            self.0.with_instance(slot, D::start);
        }
    }

    fn stop(&self, slot: usize, completion: Completion) {
        self.0
            .with_instance(slot, |source, instance| source.stop(instance, completion));
    }

    fn release(&self, slot: usize) {
        self.0.slots.stop(slot);
        self.0.slots.release(slot);
    }

    fn flush(&self, slot: usize, flags: FlushFlags, completion: Completion) {
        self.0.with_instance(slot, |source, instance| {
            source.flush(instance, flags, completion);
        });
    }

    fn clear_incremental_state(&self, slot: usize) {
        self.0.slots.clear(slot);
        self.0.with_instance(slot, D::clear_incremental_state);
    }

    fn can_adopt(&self, startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
        self.0.source.can_adopt(startup, config)
    }

    fn forked(&self) {
        self.0.slots.forked();
    }

    fn decided(&self) {
        self.0.slots.decided();
    }
}
