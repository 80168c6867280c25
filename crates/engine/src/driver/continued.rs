//! Recordings of a process that continue in its forked children.
//!
//! A process leaves the configs of its instances to its children. In a child, the background thread
//! starts the same instances as startup tracing, so that their packets are kept until the services
//! request them. The recordings of which the service wants the child are known after the first
//! round trip; the other instances end then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_client::InstanceId;
use ferretto_proto::DataSourceConfig;
use ferretto_shm::fork::Inherited;

use super::Driver;
use super::instance::Stage;
use crate::backend::BackendKind;
use crate::startup::StartupRequest;

/// The longest time for which packets are kept for a service that does not reply.
const LIMIT: Duration = Duration::from_secs(10);

/// An instance of this process or its parent.
#[derive(Debug)]
struct Left {
    backend: BackendKind,
    /// The index of the data source.
    kind: usize,
    config: Arc<DataSourceConfig>,
}

static LEFT: Inherited<Vec<Left>> = Inherited::new();

impl Driver {
    /// Leaves the current recordings to children that are forked from now on.
    pub(super) fn leave_to_children(&self) {
        let recording = self.instances.iter().filter(|instance| {
            instance.stage == Stage::Started && (instance.id.is_some() || instance.is_continued)
        });
        let left = recording.map(|instance| Left {
            backend: self.links[instance.link].backend,
            kind: instance.kind.index,
            config: Arc::clone(&instance.config),
        });
        LEFT.set(left.collect());
    }

    /// Continues the recordings of the parent process, as far as their services can record this
    /// process, too.
    pub(super) fn continue_recordings(&mut self) {
        let inherited = LEFT.get().map_or(&[][..], Vec::as_slice);
        for link in 0..self.links.len() {
            let backend = self.links[link].backend;
            // The service in the parent process does not know this process.
            if backend == BackendKind::InProcess || !self.links[link].producer.has_address() {
                continue;
            }
            let configs = inherited.iter().filter(|left| left.backend == backend);
            let configs: Vec<_> = configs.map(|left| (left.kind, &left.config)).collect();
            // Without memory, the recordings report that they started late.
            if configs.is_empty() || !self.links[link].producer.provide_memory() {
                continue;
            }
            let mut waiting = Vec::new();
            for (kind, config) in configs {
                let kind = self.kinds.iter().find(|known| known.index == kind).copied();
                let instance = kind.and_then(|kind| self.begin_instance(link, kind, config));
                if let Some(instance) = instance {
                    instance.is_continued = true;
                    waiting.push(instance.key);
                }
            }
            if !waiting.is_empty() {
                let request = StartupRequest {
                    number: 0,
                    backend,
                    configs: Vec::new(),
                    deadline: Instant::now().checked_add(LIMIT),
                    observer: Box::new(|_| ()),
                };
                self.add_startup(request, link, waiting, true);
            }
        }
        self.leave_to_children();
    }

    /// Uses an instance that continues one of the parent for the service's request of the same
    /// recording. Returns false if there is none. Does not call the data source.
    pub(super) fn adopt_continued(
        &mut self,
        link: usize,
        id: InstanceId,
        config: &Arc<DataSourceConfig>,
    ) -> bool {
        let connection = self.links[link].connection;
        let continued = self.instances.iter_mut().find(|instance| {
            instance.is_of(link, connection)
                && instance.is_continued
                && instance.is_adoptable()
                && instance.config == *config
        });
        let Some(instance) = continued else {
            return false;
        };
        instance.id = Some(id);
        let key = instance.key;
        self.adopted(key);
        true
    }
}
