//! Registration of data sources.

use std::any::TypeId;
use std::sync::Mutex;

use ferretto_client::ExhaustedPolicy;
use ferretto_engine::{self as engine, RegisterError, Registration, lock};
use ferretto_proto::DataSourceDescriptor;
use ferretto_shm::fork::PerProcess;

use super::DataSource;
use super::handle::{self, DataSourceHandle};
use super::registered::{Engaged, Registered};

/// Options for the registration of a data source.
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
    /// Creates options for a data source with this name, by which configs refer to it.
    pub fn new(name: &str) -> Self {
        Self::with_descriptor(DataSourceDescriptor {
            name: Some(name.as_bytes().to_vec()),
            ..Default::default()
        })
    }

    /// Creates options for a data source with this descriptor. The id and the fields common to all
    /// data sources of this library are filled in.
    pub fn with_descriptor(descriptor: DataSourceDescriptor) -> Self {
        Self {
            descriptor,
            policy: ExhaustedPolicy::Drop,
            policy_by_config: false,
            is_single: false,
            no_flush: false,
        }
    }

    /// Sets the behaviour of writers when the shared memory is full; by default packets are
    /// dropped.
    #[must_use]
    pub fn policy(mut self, policy: ExhaustedPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Allows configs to select another policy.
    #[must_use]
    pub fn policy_by_config(mut self) -> Self {
        self.policy_by_config = true;
        self
    }

    /// Allows only one instance at a time. Further recordings receive nothing from this data
    /// source.
    #[must_use]
    pub fn single_instance(mut self) -> Self {
        self.is_single = true;
        self
    }

    /// Excludes the data source from flushes, which become faster: [`DataSource::flush`] has
    /// nothing to do.
    #[must_use]
    pub fn no_flush(mut self) -> Self {
        self.no_flush = true;
        self
    }

    /// Sets a program of ProtoVM (an encoded `VmProgram`), for a data source whose packets are
    /// patches of a large message. If a config has a `protovm_config` for the data source and its
    /// buffer has the mode `TRACE_BUFFER_V2`, the service runs the program on each packet before it
    /// is overwritten, and the trace starts with the message as it was before the oldest remaining
    /// packet.
    #[must_use]
    pub fn protovm_program(mut self, program: impl Into<Vec<u8>>) -> Self {
        self.descriptor.protovm_program = Some(program.into());
        self
    }

    /// Registers the data source with all present and future services of this process. When this
    /// returns, active recordings of the machine's service include all packets from now on;
    /// [`Options::wait`](crate::Options::wait) limits the wait. A second registration of the same
    /// type under the same name has no effect, and returns the first handle.
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

/// Registers a data source under a name by which configs refer to it. See [`DataSourceOptions`] for
/// more control.
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
