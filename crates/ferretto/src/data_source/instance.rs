//! Instances of a data source.

use std::fmt;
use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_engine::{BackendKind, WriterSource};
use ferretto_proto::DataSourceConfig;

use super::DataSource;

/// An instance of a data source: its use by one recording. Cheap to clone.
pub struct Instance<D: DataSource>(Arc<Inner<D>>);

struct Inner<D: DataSource> {
    index: usize,
    config: Arc<DataSourceConfig>,
    backend: BackendKind,
    is_startup: bool,
    writers: WriterSource,
    data: D::Instance,
}

impl<D: DataSource> Instance<D> {
    pub(super) fn new(index: usize, setup: ferretto_engine::Setup, data: D::Instance) -> Self {
        Self(Arc::new(Inner {
            index,
            config: setup.config,
            backend: setup.backend,
            is_startup: setup.is_startup,
            writers: setup.writers,
            data,
        }))
    }

    /// Returns the index of the instance, 0 to 7, among those of the data source that exist at the
    /// same time.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Returns the config of the data source in this recording.
    pub fn config(&self) -> &DataSourceConfig {
        &self.0.config
    }

    /// Returns the kind of the service that requested the recording.
    pub fn backend(&self) -> BackendKind {
        self.0.backend
    }

    /// Returns true if the instance began as [startup tracing](crate::StartupTracing).
    pub fn is_startup(&self) -> bool {
        self.0.is_startup
    }

    /// Returns the value that [`DataSource::setup`] returned.
    pub fn data(&self) -> &D::Instance {
        &self.0.data
    }

    /// Creates a writer into the recording, with a sequence of its own, for use on any one thread.
    /// It discards all packets once the connection is lost.
    pub fn create_writer(&self) -> TraceWriter {
        self.0.writers.create_writer()
    }
}

impl<D: DataSource> Clone for Instance<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: DataSource> fmt::Debug for Instance<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("index", &self.0.index)
            .field("backend", &self.0.backend)
            .finish_non_exhaustive()
    }
}
