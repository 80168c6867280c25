//! Data sources of all kinds, and the table of those that this process has.

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

/// Most data sources of one process.
pub const MAX_SOURCES: usize = 32;

/// A recording's request for an instance of a data source.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The config.
    pub config: Arc<DataSourceConfig>,
    /// The service that asks.
    pub backend: BackendKind,
    /// The source of the instance's writers.
    pub writers: WriterSource,
    /// This is startup tracing: no service has asked yet.
    pub is_startup: bool,
}

/// A data source of any kind. All but [`descriptor`](Self::descriptor) and [`forked`](Self::forked)
/// is called by the background thread only, for each place in the order of the life of an instance.
pub trait Source: Send + Sync {
    /// Returns the description that services get. Its name never changes.
    fn descriptor(&self) -> DataSourceDescriptor;

    /// Prepares an instance.
    fn setup(&self, place: usize, setup: Setup);

    /// Starts recording.
    fn start(&self, place: usize);

    /// Says that recording is to end, as soon as `completion` is dropped.
    fn stop(&self, place: usize, completion: Completion);

    /// Ends recording and drops the state of the instance.
    fn release(&self, place: usize);

    /// Hands over buffered data. The service is told when `completion` is dropped.
    fn flush(&self, place: usize, flags: FlushFlags, completion: Completion);

    /// Has the incremental state start anew.
    fn clear_incremental_state(&self, place: usize);

    /// Returns true if an instance of startup tracing fits the service's request.
    fn can_adopt(&self, startup: &DataSourceConfig, config: &DataSourceConfig) -> bool {
        adoption::is_same(startup, config)
    }

    /// This is a forked child, where nothing is recorded yet. Must not use locks that a thread of
    /// the parent may have held.
    fn forked(&self);
}

/// A data source to be registered.
pub struct Registration {
    /// The data source.
    pub source: Box<dyn Source>,
    /// The policy of writers when memory is full.
    pub policy: ExhaustedPolicy,
    /// Set if configs may choose another policy.
    pub policy_by_config: bool,
    /// At most one instance at a time.
    pub is_single: bool,
    /// The data source has nothing to do when the service flushes.
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
    /// A process can have 32 data sources, track events included.
    TooMany,
}

ferretto_wire::error_text! {
    RegisterError {
        Self::TooMany => "a process can have {MAX_SOURCES} data sources at most",
    }
}

/// All data sources of this process and its parents; the last one comes first.
static KINDS: AppendList<Kind> = AppendList::new();

/// Held while a data source is registered.
static REGISTERING: PerProcess<Mutex<()>> = PerProcess::new();

/// Offers a data source to the present and all future services of this process, and of its forked
/// children. Returns its number, which is below 32.
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

/// Has the services learn that a data source describes itself differently.
pub fn update(index: usize) {
    queue::send(Command::Update(index));
}

/// All data sources, in the order of their registration.
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
        // The service wants numbers that differ, also between data sources of the same name.
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
