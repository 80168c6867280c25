//! Startup tracing in progress.

use std::sync::Arc;
use std::time::Instant;

use ferretto_client::InstanceId;
use ferretto_proto::DataSourceConfig;

use super::instance::Stage;
use super::{Driver, guarded};
use crate::startup::{StartupEvent, StartupRequest};
use crate::writer_source::Destination;

/// The startup tracing that is not over.
#[derive(Debug, Default)]
pub(super) struct Startups {
    open: Vec<Startup>,
}

#[derive(Debug)]
struct Startup {
    request: StartupRequest,
    link: usize,
    /// The keys of the instances that no service has adopted yet.
    waiting: Vec<u64>,
}

impl Startups {
    /// Returns the time at which the first is aborted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.open.iter().map(|startup| startup.request.deadline);
        deadlines.flatten().min()
    }
}

impl Driver {
    pub(super) fn begin_startup(&mut self, mut request: StartupRequest) {
        let link = self
            .links
            .iter()
            .position(|link| link.backend == request.backend);
        let configs = std::mem::take(&mut request.configs);
        let mut waiting = Vec::new();
        if let Some(link) = link {
            self.links[link].producer.provide_memory();
            for config in configs {
                waiting.extend(self.begin_instances(link, config));
            }
        }
        let count = waiting.len();
        guarded(|| (request.observer)(StartupEvent::SetUp(count)));
        match link {
            Some(link) if count != 0 => self.startups.open.push(Startup {
                request,
                link,
                waiting,
            }),
            _ => {}
        }
    }

    /// Starts an instance of every data source with that name.
    fn begin_instances(&mut self, link: usize, config: DataSourceConfig) -> Vec<u64> {
        let config = Arc::new(config);
        let mut begun = Vec::new();
        for kind in self.kinds_named(config.name.as_deref().unwrap_or_default()) {
            let Some(slot) = self.free_slot(kind) else {
                continue;
            };
            let Some(reservation) = self.links[link].reserve() else {
                break;
            };
            let reserved = Destination::Reserved(reservation);
            let key = self.create(kind, slot, link, None, Arc::clone(&config), reserved);
            if let Some(instance) = self.instances.last_mut() {
                instance.start();
            }
            begun.push(key);
        }
        begun
    }

    /// Uses a matching instance that is already recording for the service's request. Returns false
    /// if there is none.
    pub(super) fn adopt(
        &mut self,
        link: usize,
        id: InstanceId,
        config: &Arc<DataSourceConfig>,
    ) -> bool {
        let connection = self.links[link].connection;
        let adopted = self.instances.iter_mut().find(|instance| {
            instance.is_of(link, connection)
                && instance.id.is_none()
                && instance.stage == Stage::Started
                && instance.config.name == config.name
                && instance.kind.source().can_adopt(&instance.config, config)
        });
        let Some(instance) = adopted else {
            return false;
        };
        instance.id = Some(id);
        instance.config = Arc::clone(config);
        let key = instance.key;
        for startup in &mut self.startups.open {
            startup.waiting.retain(|&waiting| waiting != key);
        }
        let done = |startup: &mut Startup| startup.waiting.is_empty();
        for mut startup in self.startups.open.extract_if(.., done) {
            guarded(|| (startup.request.observer)(StartupEvent::Adopted));
        }
        true
    }

    pub(super) fn expire_startups(&mut self, now: Instant) {
        self.abort_startups(|startup| startup.request.deadline.is_some_and(|due| due <= now));
    }

    pub(super) fn abort_startup(&mut self, number: u64) {
        self.abort_startups(|startup| startup.request.number == number);
    }

    pub(super) fn abort_startups_of(&mut self, link: usize) {
        self.abort_startups(|startup| startup.link == link);
    }

    fn abort_startups(&mut self, is_over: impl Fn(&Startup) -> bool) {
        let over = |startup: &mut Startup| is_over(startup);
        let aborted: Vec<Startup> = self.startups.open.extract_if(.., over).collect();
        for mut startup in aborted {
            for instance in &mut self.instances {
                if startup.waiting.contains(&instance.key) {
                    instance.stop();
                }
            }
            guarded(|| (startup.request.observer)(StartupEvent::Aborted));
        }
    }
}
