//! Startup tracing in progress.

use std::sync::Arc;
use std::time::Instant;

use ferretto_client::InstanceId;
use ferretto_proto::DataSourceConfig;

use super::instance::Instance;
use super::{Driver, guarded};
use crate::source::Kind;
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
    /// Set if it continues recordings of the parent process.
    is_continued: bool,
}

impl Startups {
    /// Returns the time at which the first is aborted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadlines = self.open.iter().map(|startup| startup.request.deadline);
        deadlines.flatten().min()
    }

    /// Returns true if instances of the parent process continue that no service has adopted yet.
    pub(super) fn is_any_continued(&self) -> bool {
        self.open.iter().any(|startup| startup.is_continued)
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
            Some(link) if count != 0 => self.add_startup(request, link, waiting, false),
            _ => {}
        }
    }

    pub(super) fn add_startup(
        &mut self,
        request: StartupRequest,
        link: usize,
        waiting: Vec<u64>,
        is_continued: bool,
    ) {
        self.startups.open.push(Startup {
            request,
            link,
            waiting,
            is_continued,
        });
    }

    /// Starts an instance of every data source with that name.
    fn begin_instances(&mut self, link: usize, config: DataSourceConfig) -> Vec<u64> {
        let config = Arc::new(config);
        let kinds = self.kinds_named(config.name.as_deref().unwrap_or_default());
        let begin = |kind| Some(self.begin_instance(link, kind, &config)?.key);
        kinds.into_iter().filter_map(begin).collect()
    }

    /// Starts an instance that no service has requested yet. Returns `None` if there are too many.
    pub(super) fn begin_instance(
        &mut self,
        link: usize,
        kind: &'static Kind,
        config: &Arc<DataSourceConfig>,
    ) -> Option<&mut Instance> {
        let slot = self.free_slot(kind)?;
        let reserved = Destination::Reserved(self.links[link].reserve()?);
        self.create(kind, slot, link, None, Arc::clone(config), reserved);
        let instance = self.instances.last_mut()?;
        instance.start();
        Some(instance)
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
                && instance.is_adoptable()
                && !instance.is_continued
                && instance.config.name == config.name
                && instance.kind.source().can_adopt(&instance.config, config)
        });
        let Some(instance) = adopted else {
            return false;
        };
        instance.id = Some(id);
        instance.config = Arc::clone(config);
        let key = instance.key;
        self.adopted(key);
        true
    }

    /// Ends the startup tracing of which every instance is adopted.
    pub(super) fn adopted(&mut self, key: u64) {
        for startup in &mut self.startups.open {
            startup.waiting.retain(|&waiting| waiting != key);
        }
        let done = |startup: &mut Startup| startup.waiting.is_empty();
        for mut startup in self.startups.open.extract_if(.., done) {
            guarded(|| (startup.request.observer)(StartupEvent::Adopted));
        }
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

    /// Ends the instances of the parent process that continue and that no service has adopted.
    pub(super) fn abort_continued(&mut self, link: usize) {
        self.abort_startups(|startup| startup.is_continued && startup.link == link);
    }

    fn abort_startups(&mut self, is_over: impl Fn(&Startup) -> bool) {
        let is_leaving = self.queue.farewell.is_leaving();
        let over = |startup: &mut Startup| is_over(startup);
        let aborted: Vec<Startup> = self.startups.open.extract_if(.., over).collect();
        for mut startup in aborted {
            for instance in &mut self.instances {
                if !startup.waiting.contains(&instance.key) {
                    continue;
                }
                match instance.reservation {
                    // Data sources are not called any more.
                    Some(reservation) if is_leaving => {
                        self.links[instance.link].handle.abort_startup(reservation);
                    }
                    _ => instance.stop(),
                }
            }
            guarded(|| (startup.request.observer)(StartupEvent::Aborted));
        }
    }
}
