//! A recording's use of a data source.

use std::fmt;
use std::sync::Arc;

use ferretto_client::TraceWriter;
use ferretto_engine::{BackendKind, WriterSource};
use ferretto_proto::DataSourceConfig;

use super::DataSource;

/// A recording's use of a data source. Cheap to clone.
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

    /// Tells the instances of a data source that exist at the same time apart: 0 to 7.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Returns the config that says how to record.
    pub fn config(&self) -> &DataSourceConfig {
        &self.0.config
    }

    /// Returns which service asked.
    pub fn backend(&self) -> BackendKind {
        self.0.backend
    }

    /// True if the instance began as [startup tracing](crate::StartupTracing).
    pub fn is_startup(&self) -> bool {
        self.0.is_startup
    }

    /// Returns the value that [`DataSource::setup`] returned.
    pub fn data(&self) -> &D::Instance {
        &self.0.data
    }

    /// A writer into the recording, a sequence of its own, for any one thread. It discards
    /// everything once the connection is lost.
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
