//! Data sources of one's own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferretto_client::{ExhaustedPolicy, ProducerHandle, TraceWriter};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};

use crate::engine::{Command, Slots, Source, Target, bits, exhausted_policy, point, runtime};

/// Reacts to recordings that want this data source.
///
/// All methods are called on ferretto's background thread, which must not be held up. Every method may be left out.
pub trait DataSource: Send + 'static {
    /// A recording is being prepared. Nothing is recorded yet.
    fn setup(&mut self, _instance: &Instance) {}

    /// The recording starts.
    fn start(&mut self, _instance: &Instance) {}

    /// The recording ends. Writers made with [`Instance::create_writer`] should be flushed.
    fn stop(&mut self, _instance: &Instance) {}

    /// What is held should be handed over: writers made with [`Instance::create_writer`] should be flushed. What the
    /// writers of [`DataSourceHandle::trace`] hold, the service fetches by itself.
    fn flush(&mut self, _instance: &Instance) {}

    /// The next packets must make sense without those before.
    fn clear_incremental_state(&mut self, _instance: &Instance) {}
}

/// A recording's use of a data source.
#[derive(Clone, Debug)]
pub struct Instance {
    place: usize,
    config: Arc<DataSourceConfig>,
    handle: ProducerHandle,
    policy: ExhaustedPolicy,
}

impl Instance {
    /// Tells the instances of a data source that exist at the same time apart: 0 to 7.
    pub fn index(&self) -> usize {
        self.place
    }

    /// How to record.
    pub fn config(&self) -> &DataSourceConfig {
        &self.config
    }

    /// A writer into the recording, a sequence of its own, for any one thread.
    pub fn create_writer(&self) -> TraceWriter {
        self.handle
            .create_writer(self.config.target_buffer.unwrap_or(0), self.policy)
    }
}

/// Why a data source was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// [`init`](crate::init()) was not called.
    NotInitialised,
}

ferretto_wire::error_text! {
    RegisterError {
        Self::NotInitialised => "tracing has not been initialised",
    }
}

/// Writes packets of a data source. Cheap to clone.
#[derive(Clone)]
pub struct DataSourceHandle {
    id: u32,
    slots: Arc<Slots<()>>,
}

/// Offers a data source to recordings, under the name that configs ask for.
///
/// # Errors
///
/// See [`RegisterError`].
pub fn register_data_source(
    name: &str,
    source: impl DataSource,
) -> Result<DataSourceHandle, RegisterError> {
    static NEXT_ID: AtomicU32 = AtomicU32::new(0);
    let runtime = runtime().ok_or(RegisterError::NotInitialised)?;
    let slots = Arc::new(Slots::new());
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let descriptor = DataSourceDescriptor {
        name: Some(name.as_bytes().to_vec()),
        // The service wants numbers that differ, also between data sources of the same name.
        id: Some(u64::from(id) + 2),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    };
    let custom = Custom {
        source,
        slots: Arc::clone(&slots),
        instances: HashMap::new(),
    };
    runtime.send(Command::Register(descriptor, Some(Box::new(custom))));
    Ok(DataSourceHandle { id, slots })
}

impl DataSourceHandle {
    /// Whether anybody records.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.slots.active() != 0
    }

    /// Calls `write` once for every recording, with this thread's writer for it. Does nothing if nobody records, or
    /// inside another `trace`.
    #[inline]
    pub fn trace(&self, write: impl FnMut(&mut TraceWriter)) {
        let active = self.slots.active();
        if active != 0 {
            self.trace_active(active, write);
        }
    }

    fn trace_active(&self, active: u32, mut write: impl FnMut(&mut TraceWriter)) {
        let Some(_point) = point::enter() else {
            return;
        };
        // Fails while the thread ends; what is traced then is lost.
        let _ = WRITERS.try_with(|writers| {
            let Ok(mut writers) = writers.try_borrow_mut() else {
                return;
            };
            for place in bits(active) {
                let epoch = self.slots.epoch(place);
                let entry = writers.entry((self.id, place));
                let (_, writer) = match entry {
                    std::collections::hash_map::Entry::Occupied(known)
                        if known.get().0 == epoch =>
                    {
                        known.into_mut()
                    }
                    entry => {
                        let Some((writer, ())) = self.slots.writer(place) else {
                            continue;
                        };
                        entry.insert_entry((epoch, writer)).into_mut()
                    }
                };
                write(writer);
            }
        });
    }
}

impl fmt::Debug for DataSourceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSourceHandle")
            .field("enabled", &self.is_enabled())
            .finish()
    }
}

thread_local! {
    /// This thread's writers, by data source and place, with the epoch they belong to.
    static WRITERS: RefCell<HashMap<(u32, usize), (u64, TraceWriter)>> = RefCell::default();
}

/// Flushes this thread's writers.
pub(crate) fn flush_thread() {
    let _ = WRITERS.try_with(|writers| {
        if let Ok(mut writers) = writers.try_borrow_mut() {
            writers
                .values_mut()
                .for_each(|(_, writer)| writer.flush(None));
        }
    });
}

/// A user's data source, as the background thread knows it.
struct Custom<D> {
    source: D,
    slots: Arc<Slots<()>>,
    instances: HashMap<usize, Instance>,
}

impl<D: DataSource> Custom<D> {
    fn with_instance(&mut self, place: usize, act: impl FnOnce(&mut D, &Instance)) {
        if let Some(instance) = self.instances.get(&place) {
            act(&mut self.source, instance);
        }
    }
}

impl<D: DataSource> Source for Custom<D> {
    fn setup(&mut self, config: &DataSourceConfig, handle: &ProducerHandle) -> Option<usize> {
        let policy = exhausted_policy(config);
        let target = Target {
            handle: handle.clone(),
            buffer: config.target_buffer.unwrap_or(0),
            policy,
            settings: (),
        };
        let place = self.slots.claim(target)?;
        let config = Arc::new(config.clone());
        let instance = Instance {
            place,
            config,
            handle: handle.clone(),
            policy,
        };
        self.source.setup(&instance);
        self.instances.insert(place, instance);
        Some(place)
    }

    fn start(&mut self, place: usize) {
        self.slots.start(place);
        self.with_instance(place, D::start);
    }

    fn stop(&mut self, place: usize) {
        self.with_instance(place, D::stop);
        self.slots.stop(place);
        self.slots.release(place);
        self.instances.remove(&place);
    }

    fn flush(&mut self, place: usize) {
        self.with_instance(place, D::flush);
    }

    fn clear_incremental_state(&mut self, place: usize) {
        self.slots.clear(place);
        self.with_instance(place, D::clear_incremental_state);
    }
}
