//! What the program has of a data source, and what the engine has.

use std::fmt;
use std::sync::Mutex;

use ferretto_engine::{self as engine, Completion, FlushFlags, Setup, Slots, Source, Target, lock};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};
use ferretto_shm::fork::PerProcess;

use super::context::{self, TraceContext};
use super::{DataSource, Instance};

/// Writes packets of a data source. Cheap to copy.
pub struct DataSourceHandle<D: DataSource> {
    registered: &'static Registered<D>,
    number: usize,
}

impl<D: DataSource> DataSourceHandle<D> {
    pub(super) fn new(registered: &'static Registered<D>, number: usize) -> Self {
        Self { registered, number }
    }

    /// Whether anybody records. One load; in a forked child it may say `true` before the first trace point.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        !cfg!(feature = "off") && self.registered.slots.active() != 0
    }

    /// Calls `write` once for every recording, with this thread's sequence in it. Does nothing if nobody records, or
    /// inside another trace point, of any kind. Must not fork the process.
    #[inline]
    pub fn trace(&self, write: impl FnMut(&mut TraceContext<'_, D>)) {
        if self.is_enabled() {
            context::trace(self.registered, self.number, write);
        }
    }

    /// The data source.
    pub fn source(&self) -> &'static D {
        &self.registered.source
    }

    /// Has services know the data source by this description from now on. The name stays, whatever it says.
    ///
    /// A forked child starts with the description that was registered.
    pub fn update(&self, mut descriptor: DataSourceDescriptor) {
        descriptor.name.clone_from(&self.registered.descriptor.name);
        *lock(self.registered.updated.get_or_init(Mutex::default)) = Some(descriptor);
        engine::update(self.number);
    }
}

impl<D: DataSource> Clone for DataSourceHandle<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: DataSource> Copy for DataSourceHandle<D> {}

impl<D: DataSource> fmt::Debug for DataSourceHandle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSourceHandle")
            .field("number", &self.number)
            .field("enabled", &self.is_enabled())
            .finish()
    }
}

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

    fn with_instance(&self, place: usize, act: impl FnOnce(&D, &Instance<D>)) {
        if let Some(instance) = self.slots.peek(place) {
            act(&self.source, &instance);
        }
    }
}

/// As the engine knows it.
pub(super) struct Engaged<D: DataSource>(pub(super) &'static Registered<D>);

impl<D: DataSource> Source for Engaged<D> {
    fn descriptor(&self) -> DataSourceDescriptor {
        let updated = self.0.updated.get();
        let updated = updated.and_then(|updated| lock(updated).clone());
        updated.unwrap_or_else(|| self.0.descriptor.clone())
    }

    fn setup(&self, place: usize, setup: Setup) {
        let outlet = setup.outlet.clone();
        let data = self.0.source.setup(&setup.config);
        let settings = Instance::new(place, setup, data);
        self.0.slots.prepare(place, Target { outlet, settings });
    }

    fn start(&self, place: usize) {
        if self.0.slots.peek(place).is_some() {
            self.0.slots.start(place);
            self.0.with_instance(place, D::start);
        }
    }

    fn stop(&self, place: usize, completion: Completion) {
        self.0
            .with_instance(place, |source, instance| source.stop(instance, completion));
    }

    fn release(&self, place: usize) {
        self.0.slots.stop(place);
        self.0.slots.release(place);
    }

    fn flush(&self, place: usize, flags: FlushFlags, completion: Completion) {
        self.0.with_instance(place, |source, instance| {
            source.flush(instance, flags, completion);
        });
    }

    fn clear_incremental_state(&self, place: usize) {
        self.0.slots.clear(place);
        self.0.with_instance(place, D::clear_incremental_state);
    }

    fn can_adopt(&self, startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
        self.0.source.can_adopt(startup, config)
    }

    fn forked(&self) {
        self.0.slots.forked();
    }
}
