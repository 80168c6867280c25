//! Handles of data sources, with which the program writes packets.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_engine::{self as engine, point};
use ferretto_proto::DataSourceDescriptor;
use ferretto_shm::fork::AppendList;

use super::DataSource;
use super::context::{self, TraceContext};
use super::registered::Registered;

/// Writes packets of a data source. Cheap to copy.
pub struct DataSourceHandle<D: DataSource> {
    registered: &'static Registered<D>,
    number: usize,
}

impl<D: DataSource> DataSourceHandle<D> {
    pub(super) fn new(registered: &'static Registered<D>, number: usize) -> Self {
        Self { registered, number }
    }

    /// Returns true if a recording is active. Costs one load. In a forked child it may return true
    /// before the first trace point.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        !cfg!(feature = "off") && self.registered.slots.active() != 0
    }

    /// Calls `write` once for every recording, with this thread's sequence. Does nothing if no
    /// recording is active, or inside another trace point of any kind. `write` must not fork the
    /// process.
    #[inline]
    pub fn trace(&self, write: impl FnMut(&mut TraceContext<'_, D>)) {
        if self.is_enabled() {
            context::trace(self.registered, self.number, write);
        }
    }

    /// Returns the data source.
    pub fn source(&self) -> &'static D {
        &self.registered.source
    }

    /// Replaces the descriptor of the data source at the services. A different name in it is
    /// ignored.
    ///
    /// A forked child starts with the originally registered descriptor.
    pub fn update(&self, descriptor: DataSourceDescriptor) {
        self.registered.set_descriptor(descriptor);
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

/// The data sources that have handles.
static HANDLES: AppendList<KnownHandle> = AppendList::new();

struct KnownHandle {
    type_id: TypeId,
    name: Vec<u8>,
    handle: Box<dyn Any + Send + Sync>,
}

/// Returns the handle of a registered data source.
pub(super) fn find<D: DataSource>(type_id: TypeId, name: &[u8]) -> Option<DataSourceHandle<D>> {
    let mut handles = HANDLES.iter();
    let known = handles.find(|known| known.type_id == type_id && known.name == name)?;
    known.handle.downcast_ref().copied()
}

/// Stores a handle.
pub(super) fn introduce<D: DataSource>(
    type_id: TypeId,
    name: Vec<u8>,
    handle: DataSourceHandle<D>,
) {
    static IS_COLLECTED: AtomicBool = AtomicBool::new(false);
    if !IS_COLLECTED.swap(true, Ordering::Relaxed) {
        point::on_collect(context::collect_thread);
    }
    HANDLES.push(KnownHandle {
        type_id,
        name,
        handle: Box::new(handle),
    });
}
