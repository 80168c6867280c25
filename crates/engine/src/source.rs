//! Data sources of all kinds, and the table of those in this process.

use std::fmt;
use std::sync::{Arc, Mutex};

use ferretto_client::ExhaustedPolicy;
pub use ferretto_format::{FlushFlags, FlushReason};
use ferretto_proto::data_source_config::BufferExhaustedPolicy;
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};
use ferretto_shm::fork::{AppendList, PerProcess};

use super::adoption;
use super::backend::BackendKind;
use super::completion::Completion;
use super::primitive::lock;
use super::queue::{self, Command};
use super::writer_source::WriterSource;

/// The largest number of data sources of a process.
pub const MAX_SOURCES: usize = 32;

/// A recording's request for an instance of a data source.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The config.
    pub config: Arc<DataSourceConfig>,
    /// The service that requests it.
    pub backend: BackendKind,
    /// The source of the instance's writers.
    pub writers: WriterSource,
    /// Set for startup tracing, which no service has requested yet.
    pub is_startup: bool,
}

/// A data source of any kind. The background thread calls all methods but
/// [`descriptor`](Self::descriptor), [`forked`](Self::forked) and [`decided`](Self::decided), for
/// each slot in the order of an instance's life.
pub trait Source: Send + Sync {
    /// Returns the description for services. Its name never changes.
    fn descriptor(&self) -> DataSourceDescriptor;

    /// Prepares an instance.
    fn setup(&self, slot: usize, setup: Setup);

    /// Starts recording.
    fn start(&self, slot: usize);

    /// Stops recording, which ends when `completion` is dropped.
    fn stop(&self, slot: usize, completion: Completion);

    /// Drops the state of the instance.
    fn release(&self, slot: usize);

    /// Commits buffered data. The service is notified when `completion` is dropped.
    fn flush(&self, slot: usize, flags: FlushFlags, completion: Completion);

    /// Makes the incremental state start again.
    fn clear_incremental_state(&self, slot: usize);

    /// Returns true if an instance of startup tracing matches the service's request.
    fn can_adopt(&self, startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
        adoption::is_same(startup, config)
    }

    /// Resets the state in a forked child, where no recording runs, except that trace points still
    /// have to find out. Must not use locks that a thread of the parent may have held.
    fn forked(&self);

    /// Makes trace points of a forked child rely on the recordings that have started meanwhile.
    fn decided(&self);
}

/// A data source to register.
pub struct Registration {
    /// The data source.
    pub source: Box<dyn Source>,
    /// The policy of writers when memory is full.
    pub policy: ExhaustedPolicy,
    /// Set if configs may choose another policy.
    pub policy_by_config: bool,
    /// Set if there may be at most one instance at a time.
    pub is_single: bool,
    /// Set if the data source has no work when the service flushes.
    pub no_flush: bool,
}

/// A registered data source.
pub(super) struct Kind {
    pub(super) index: usize,
    pub(super) name: Vec<u8>,
    pub(super) registration: Registration,
}

/// The error of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// A process can have 32 data sources, including track events.
    TooMany,
}

ferretto_wire::error_text! {
    RegisterError {
        Self::TooMany => "a process can have {MAX_SOURCES} data sources at most",
    }
}

/// The data sources of this process and its parents, last one first.
static KINDS: AppendList<Kind> = AppendList::new();

/// Held while a data source is registered.
static REGISTERING: PerProcess<Mutex<()>> = PerProcess::new();

/// Registers a data source with the present and future services of this process, and of its forked
/// children. Returns its index, which is below 32.
///
/// # Errors
///
/// See [`RegisterError`].
pub fn register(registration: Registration) -> Result<usize, RegisterError> {
    let name = registration.source.descriptor().name.unwrap_or_default();
    let kind = {
        let _registering = lock(REGISTERING.get_or_init(Mutex::default));
        let index = KINDS.iter().next().map_or(0, |last| last.index + 1);
        if index == MAX_SOURCES {
            return Err(RegisterError::TooMany);
        }
        KINDS.push(Kind {
            index,
            name,
            registration,
        })
    };
    queue::send(Command::Register(kind.index));
    Ok(kind.index)
}

/// Sends the data source's changed description to the services.
pub fn update(index: usize) {
    queue::send(Command::Update(index));
}

/// Returns all data sources, in the order of their registration.
pub(super) fn kinds() -> Vec<&'static Kind> {
    let mut kinds: Vec<_> = KINDS.iter().collect();
    kinds.reverse();
    kinds
}

impl Kind {
    pub(super) fn source(&self) -> &dyn Source {
        &*self.registration.source
    }

    /// Returns the description for services, with the fields that all data sources share.
    pub(super) fn descriptor(&self) -> DataSourceDescriptor {
        let mut descriptor = self.source().descriptor();
        // The service requires distinct ids, even for data sources with the same name.
        descriptor.id = Some(self.index as u64 + 1);
        descriptor.will_notify_on_start = Some(true);
        descriptor.will_notify_on_stop.get_or_insert(true);
        descriptor.handles_incremental_state_clear = Some(true);
        if self.registration.no_flush {
            descriptor.no_flush = Some(true);
        }
        descriptor
    }

    /// Returns the policy of an instance's writers when memory is full.
    pub(super) fn policy(&self, config: &DataSourceConfig) -> ExhaustedPolicy {
        type Wanted = BufferExhaustedPolicy;
        let wanted = config
            .buffer_exhausted_policy
            .filter(|_| self.registration.policy_by_config);
        match wanted {
            Some(Wanted::BUFFER_EXHAUSTED_DROP) => ExhaustedPolicy::Drop,
            Some(Wanted::BUFFER_EXHAUSTED_STALL_THEN_ABORT) => ExhaustedPolicy::StallThenAbort,
            Some(Wanted::BUFFER_EXHAUSTED_STALL_THEN_DROP) => ExhaustedPolicy::StallThenDrop,
            _ => self.registration.policy,
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("index", &self.index)
            .field("name", &String::from_utf8_lossy(&self.name))
            .finish_non_exhaustive()
    }
}
