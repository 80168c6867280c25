//! Registering a data source.

use std::any::TypeId;
use std::sync::Mutex;

use ferretto_client::ExhaustedPolicy;
use ferretto_engine::{self as engine, RegisterError, Registration, lock};
use ferretto_proto::DataSourceDescriptor;
use ferretto_shm::fork::PerProcess;

use super::DataSource;
use super::handle::{self, DataSourceHandle};
use super::registered::{Engaged, Registered};

/// Options for how a data source is offered.
///
/// ```
/// # struct Temperatures;
/// # impl ferretto::DataSource for Temperatures {
/// #     type Instance = ();
/// #     type Thread = ();
/// #     fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}
/// # }
/// use ferretto::{DataSourceOptions, ExhaustedPolicy};
///
/// let options = DataSourceOptions::new("com.example.temperatures");
/// let options = options.policy(ExhaustedPolicy::StallThenDrop).single_instance();
/// let temperatures = options.register(Temperatures)?;
/// # Ok::<(), ferretto::RegisterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DataSourceOptions {
    descriptor: DataSourceDescriptor,
    policy: ExhaustedPolicy,
    policy_by_config: bool,
    is_single: bool,
    no_flush: bool,
}

impl DataSourceOptions {
    /// A data source of this name, by which configs ask for it.
    pub fn new(name: &str) -> Self {
        Self::with_descriptor(DataSourceDescriptor {
            name: Some(name.as_bytes().to_vec()),
            ..Default::default()
        })
    }

    /// A data source that describes itself like this to services. Its number and the fields common
    /// to all data sources of this library are filled in.
    pub fn with_descriptor(descriptor: DataSourceDescriptor) -> Self {
        Self {
            descriptor,
            policy: ExhaustedPolicy::Drop,
            policy_by_config: false,
            is_single: false,
            no_flush: false,
        }
    }

    /// Sets what writers do when the shared memory is full; by default packets are dropped.
    #[must_use]
    pub fn policy(mut self, policy: ExhaustedPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets configs choose another policy.
    #[must_use]
    pub fn policy_by_config(mut self) -> Self {
        self.policy_by_config = true;
        self
    }

    /// At most one recording at a time; others get nothing from this data source.
    #[must_use]
    pub fn single_instance(mut self) -> Self {
        self.is_single = true;
        self
    }

    /// Services need not ask for flushes: [`DataSource::flush`] has nothing to do. They are faster
    /// then.
    #[must_use]
    pub fn no_flush(mut self) -> Self {
        self.no_flush = true;
        self
    }

    /// A program of ProtoVM (an encoded `VmProgram`), for a data source whose packets patch a large
    /// message. Where a config has a `protovm_config` for it, and the buffer the mode
    /// `TRACE_BUFFER_V2`, the service runs it on each packet that is about to be overwritten, and
    /// the trace begins with the message as it was before the oldest packet that is left.
    #[must_use]
    pub fn protovm_program(mut self, program: impl Into<Vec<u8>>) -> Self {
        self.descriptor.protovm_program = Some(program.into());
        self
    }

    /// Offers the data source to recordings by the present and all future services of this process,
    /// which may also be set up later. When this returns, recordings by the machine's service that
    /// were running include all packets from then on; [`Options::wait`](crate::Options::wait)
    /// limits the time that this may take. A second registration of the same type under the same
    /// name has no effect, and gives the first one's handle.
    ///
    /// # Errors
    ///
    /// See [`RegisterError`].
    pub fn register<D: DataSource>(self, source: D) -> Result<DataSourceHandle<D>, RegisterError> {
        static REGISTERING: PerProcess<Mutex<()>> = PerProcess::new();
        let registering = lock(REGISTERING.get_or_init(Mutex::default));
        let name = self.descriptor.name.clone().unwrap_or_default();
        let type_id = TypeId::of::<D>();
        if let Some(known) = handle::find(type_id, &name) {
            return Ok(known);
        }
        let registered: &'static Registered<D> =
            Box::leak(Box::new(Registered::new(source, self.descriptor)));
        let index = engine::register(Registration {
            source: Box::new(Engaged(registered)),
            policy: self.policy,
            policy_by_config: self.policy_by_config,
            is_single: self.is_single,
            no_flush: self.no_flush,
        })?;
        registered.slots.watch_forks();
        let handle = DataSourceHandle::new(registered, index);
        handle::introduce(type_id, name, handle);
        drop(registering);
        engine::wait_for_recordings(None);
        Ok(handle)
    }
}

/// Offers a data source to recordings, under the name that configs ask for. See
/// [`DataSourceOptions`] for more control.
///
/// # Errors
///
/// See [`RegisterError`].
pub fn register_data_source<D: DataSource>(
    name: &str,
    source: D,
) -> Result<DataSourceHandle<D>, RegisterError> {
    DataSourceOptions::new(name).register(source)
}
