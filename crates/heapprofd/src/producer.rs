//! The producer's thread, which handles the service, new clients and timers.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ferretto_client::{
    Daemon, Event, ExhaustedPolicy, InstanceId, Notice, Pauses, ProducerOptions, Scraping, Stopper,
};
use ferretto_profiling::HandOver;
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};
use ferretto_shm::Clock;

use crate::client::Client;
use crate::config::Plan;
use crate::guardrails;
use crate::listener::{Listener, grant};
use crate::options::Options;
use crate::target::Candidate;
use crate::worker::{Message, SourceKey, Worker};

/// Name of the data source.
pub const HEAPPROFD: &str = "android.heapprofd";
/// The name of the producer.
const PRODUCER_NAME: &str = "android.heapprofd";
/// The ticks per second in `/proc`, which are the same on all current machines.
const TICKS: u64 = 100;

/// Returns the descriptors of all data sources of this crate.
#[must_use]
pub fn descriptors() -> Vec<DataSourceDescriptor> {
    vec![DataSourceDescriptor {
        name: Some(HEAPPROFD.into()),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        ..Default::default()
    }]
}

/// Records heaps for the sessions of a service.
///
/// One thread handles the service, new programs and timers; another one handles rings, books and
/// packets. The profiler reconnects to a restarted service.
#[derive(Debug)]
pub struct Profiler {
    daemon: Daemon,
    listener: Listener,
    sources: BTreeMap<InstanceId, Source>,
    next_key: u64,
    worker: Worker,
    next_guard: Instant,
}

#[derive(Debug)]
struct Source {
    key: SourceKey,
    plan: Plan,
    next_dump: Option<Instant>,
    /// The start in ticks since boot.
    began: u64,
    /// The CPU time of this process at the start.
    cpu: Duration,
    /// The processes with a granted session. An ended process may be granted one again.
    pids: Vec<u32>,
    is_ended: bool,
}

impl Profiler {
    /// Creates the profiler and listens for clients. It connects to the service in
    /// [`Profiler::run`].
    ///
    /// # Errors
    ///
    /// Fails if the socket for clients cannot be created, or threads or descriptors run out.
    pub fn new(options: Options) -> io::Result<Self> {
        Self::listening(options, None)
    }

    /// Like [`new`](Self::new), with a bound socket for clients.
    ///
    /// # Errors
    ///
    /// Fails if the socket is unusable, or threads or descriptors run out.
    pub fn with_socket(options: Options, socket: OwnedFd) -> io::Result<Self> {
        Self::listening(options, Some(socket))
    }

    fn listening(options: Options, socket: Option<OwnedFd>) -> io::Result<Self> {
        let producer = ProducerOptions {
            name: PRODUCER_NAME.to_owned(),
            scraping: Scraping::Enabled,
            pauses: Pauses::Doubling,
            ..ProducerOptions::default()
        };
        let path = options.socket();
        let listener = match socket {
            Some(socket) => Listener::from_fd(socket, &path),
            None => Listener::bind(&path),
        };
        let listener = listener.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let daemon = Daemon::new(options.daemon, producer, descriptors())?;
        let worker = Worker::start(daemon.handle().clone(), options.live)?;
        Ok(Self {
            daemon,
            listener,
            sources: BTreeMap::new(),
            next_key: 0,
            worker,
            next_guard: Instant::now(),
        })
    }

    /// Returns a handle that stops [`Profiler::run`].
    pub fn stopper(&self) -> Stopper {
        self.daemon.stopper()
    }

    /// Runs until stopped. Then all clients are disconnected, and the other thread has ended.
    pub fn run(mut self) {
        while let Some(events) = self.daemon.turn() {
            for event in events {
                self.handle_event(event);
            }
            for hello in self.listener.receive(Instant::now()) {
                self.greet(hello);
            }
            self.run_timers(Instant::now());
            self.wait();
        }
        self.worker.finish();
    }

    fn wait(&self) {
        let now = Instant::now();
        let dumps = self.sources.values().filter_map(|source| source.next_dump);
        let guards = self.has_guardrails().then_some(self.next_guard);
        let timers = dumps.chain(guards);
        let limit = timers
            .map(|at| at.saturating_duration_since(now))
            .chain(self.listener.socket().due(now))
            .min();
        let fds: Vec<_> = self.listener.socket().fds().collect();
        self.daemon.wait(&fds, limit);
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Disconnected(_) => {
                for source in std::mem::take(&mut self.sources).into_values() {
                    self.worker.send(Message::Purge(source.key));
                }
                self.listener.set_active(0);
            }
            Event::Connected | Event::Setup { .. } => {}
            Event::ClearIncrementalState { instances } => {
                for source in instances.iter().filter_map(|id| self.sources.get(id)) {
                    self.worker.send(Message::Clear(source.key));
                }
            }
            Event::Start { instance, config } => {
                self.start(instance, &config);
                // From here on, programs that start are granted the session.
                self.daemon.handle().notify_started(instance);
            }
            Event::Stop { instance } => self.stop(instance),
            Event::Flush {
                request_id,
                instances,
                ..
            } => {
                let known = instances.iter().filter_map(|id| self.sources.get(id));
                let keys = known.map(|source| source.key).collect();
                self.worker.send(Message::Flush(request_id, keys));
            }
        }
    }

    fn start(&mut self, id: InstanceId, config: &DataSourceConfig) {
        let name = config.name.as_deref().unwrap_or_default();
        if self.sources.contains_key(&id) || name != HEAPPROFD.as_bytes() {
            return;
        }
        let plan = match Plan::new(config) {
            Ok(plan) => plan,
            Err(refusal) => {
                return self.daemon.notify(Notice::Failed {
                    source: HEAPPROFD.to_owned(),
                    reason: format!("not started: {refusal}"),
                });
            }
        };
        for text in &plan.remarks {
            self.daemon.notify(Notice::Remark {
                source: HEAPPROFD.to_owned(),
                text: text.clone(),
            });
        }
        self.next_key += 1;
        let key = SourceKey(self.next_key);
        let target = config.target_buffer.unwrap_or(0);
        let handle = self.daemon.handle();
        let writer = handle.create_writer(target, ExhaustedPolicy::StallThenDrop);
        let message = Message::Start(key, Box::new(plan.clone()), Box::new(writer));
        self.worker.send(message);
        let source = Source {
            key,
            next_dump: plan.dumps.map(|dumps| Instant::now() + dumps.phase),
            plan,
            began: Clock::Boottime.now() / (1_000_000_000 / TICKS),
            cpu: guardrails::cpu_time(),
            pids: Vec::new(),
            is_ended: false,
        };
        self.sources.insert(id, source);
        self.listener.call(self.active());
        self.daemon.notify(Notice::Started {
            source: HEAPPROFD.to_owned(),
        });
    }

    fn active(&self) -> usize {
        let sources = self.sources.values();
        sources.filter(|source| !source.is_ended).count()
    }

    fn stop(&mut self, id: InstanceId) {
        match self.sources.remove(&id) {
            Some(source) => {
                self.worker.send(Message::End(source.key, Some(id), false));
                self.listener.set_active(self.active());
            }
            None => self.daemon.handle().notify_stopped(id),
        }
    }

    /// Grants a client the session of the first instance that selects its process.
    fn greet(&mut self, hello: HandOver) {
        let pid = hello.pid;
        let mut wanted = self.sources.values_mut().filter(|source| {
            let candidate = Candidate::look(pid, source.began);
            !source.is_ended && source.plan.targets.contain(&candidate)
        });
        let Some(source) = wanted.next() else { return };
        for other in wanted {
            self.worker.send(Message::Rejected(other.key, pid));
        }
        let granted = Client::new(hello, source.plan.ring_size).and_then(|(client, ring)| {
            grant(client.stream(), &source.plan.client.to_bytes(), &ring)?;
            Ok(client)
        });
        match granted {
            Ok(client) => {
                source.pids.push(pid);
                let message = Message::Client(source.key, Box::new(client));
                self.worker.send(message);
            }
            Err(error) => self.daemon.notify(Notice::Remark {
                source: HEAPPROFD.to_owned(),
                text: format!("process {pid} is not recorded: {error}"),
            }),
        }
    }

    fn has_guardrails(&self) -> bool {
        let mut plans = self.sources.values().map(|source| &source.plan);
        plans.any(|plan| plan.max_memory_kb > 0 || plan.max_cpu.is_some())
    }

    fn run_timers(&mut self, now: Instant) {
        for source in self.sources.values_mut() {
            let Some(dumps) = source.plan.dumps else {
                continue;
            };
            if source.next_dump.is_some_and(|at| at <= now) {
                self.worker.send(Message::Dump(source.key));
                source.next_dump = Some(now + dumps.interval);
            }
        }
        if self.has_guardrails() && self.next_guard <= now {
            self.next_guard = now + guardrails::PERIOD;
            self.check_guardrails();
        }
    }

    fn check_guardrails(&mut self) {
        let (memory, cpu) = (guardrails::memory_kb(), guardrails::cpu_time());
        for source in self.sources.values_mut().filter(|source| !source.is_ended) {
            let plan = &source.plan;
            let used = cpu.saturating_sub(source.cpu);
            let reason = if plan.max_memory_kb > 0 && memory > plan.max_memory_kb {
                format!("it has {memory} kB, more than max_heapprofd_memory_kb")
            } else if plan.max_cpu.is_some_and(|limit| used > limit) {
                let seconds = used.as_secs();
                format!("it has run for {seconds} s, more than max_heapprofd_cpu_secs")
            } else {
                continue;
            };
            source.is_ended = true;
            source.next_dump = None;
            source.plan.dumps = None;
            self.worker.send(Message::End(source.key, None, true));
            self.daemon.notify(Notice::Failed {
                source: HEAPPROFD.to_owned(),
                reason: format!("the profiler ends this recording: {reason}"),
            });
        }
        self.listener.set_active(self.active());
    }
}
