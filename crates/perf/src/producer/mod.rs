//! The producer that runs the data sources.

mod flushes;
mod urgency;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_client::{
    Daemon, Event, ExhaustedPolicy, InstanceId, Notice, Pauses, ProducerOptions, Scraping, Stopper,
};
use ferretto_metatrace::{Collector, METATRACE};
use ferretto_profiling::HandOverSocket;
use ferretto_proto::DataSourceConfig;
use ferretto_shm::Clock;

use self::flushes::Flushes;
use self::urgency::Urgency;
use crate::barrier::{Action, Barrier, SourceKey};
use crate::filter::Shards;
use crate::options::Options;
use crate::output::{Mailbox, Message, Metatraces, Writer};
use crate::process::Descriptors;
use crate::registration::{LINUX_PERF, descriptors};
use crate::source::{Context, Lookup, Outcome, PerfSource, Started, start};
use crate::unwinding::Unwinders;

/// The producer name.
const PRODUCER_NAME: &str = "perfetto.traced_perf";
/// The largest default number of unwinder threads.
const MAX_UNWINDERS: usize = 4;

/// The profiler: samples callstacks for the sessions of the service.
///
/// One thread waits only for the service, for timers and for the kernel's rings; unwinders and the
/// packet writer have separate threads. The profiler reconnects to a service that goes away;
/// meanwhile nothing is recorded and no events are open.
#[derive(Debug)]
pub struct Profiler {
    options: Options,
    daemon: Daemon,
    sources: BTreeMap<InstanceId, PerfSource>,
    /// The instances that record the profiler itself.
    metatraces: BTreeMap<InstanceId, SourceKey>,
    ending_metatraces: Vec<(SourceKey, InstanceId)>,
    next_key: u64,
    shards: Shards,
    lookup: Lookup,
    socket: Option<HandOverSocket>,
    flushes: Flushes,
    mailbox: Arc<Mailbox>,
    /// The threads, which start with the first data source.
    threads: Option<Threads>,
    urgency: Urgency,
}

#[derive(Debug)]
struct Threads {
    unwinders: Unwinders,
    writer: JoinHandle<()>,
}

impl Profiler {
    /// Creates the producer, which connects in [`Profiler::run`].
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left, or if the descriptor socket cannot be created.
    pub fn new(options: Options) -> io::Result<Self> {
        let producer = ProducerOptions {
            name: PRODUCER_NAME.to_owned(),
            scraping: Scraping::Enabled,
            pauses: Pauses::Doubling,
            ..ProducerOptions::default()
        };
        let path = options.descriptor_socket.as_deref();
        Ok(Self {
            daemon: Daemon::new(options.daemon.clone(), producer, descriptors())?,
            sources: BTreeMap::new(),
            metatraces: BTreeMap::new(),
            ending_metatraces: Vec::new(),
            next_key: 0,
            shards: Shards::default(),
            lookup: Lookup::new(options.clone()),
            socket: path.map(HandOverSocket::bind).transpose()?,
            flushes: Flushes::default(),
            mailbox: Arc::default(),
            threads: None,
            urgency: Urgency::default(),
            options,
        })
    }

    /// Returns a handle that stops [`Profiler::run`].
    pub fn stopper(&self) -> Stopper {
        self.daemon.stopper()
    }

    /// Runs until stopped. On return, all events are closed and all threads have ended.
    pub fn run(mut self) {
        let mut has_filled = Vec::new();
        while let Some(events) = self.daemon.turn() {
            for event in events {
                self.handle_event(event);
            }
            // After all other instances that are ending.
            for (key, id) in self.ending_metatraces.drain(..) {
                self.mailbox.send(Message::EndMetatrace(key, id));
            }
            self.run_sources(&has_filled);
            self.hurry();
            self.check_flushes();
            self.take_deliveries();
            has_filled = self.wait();
        }
        self.end();
    }

    /// Waits for work; returns the instances whose rings are filling up.
    fn wait(&self) -> Vec<InstanceId> {
        let (now, instant) = (Clock::Monotonic.now(), Instant::now());
        let sources = self.sources.values();
        let mut due: Vec<Duration> = sources.map(|source| source.due(now, instant)).collect();
        due.extend(self.flushes.due(instant));
        let socket = self.socket.as_ref();
        due.extend(socket.and_then(|socket| socket.due(instant)));
        let mut fds: Vec<_> = socket.into_iter().flat_map(HandOverSocket::fds).collect();
        let rings = self.sources.values().flat_map(PerfSource::rings);
        fds.extend(rings.map(|reader| reader.as_fd()));
        let limit = due.into_iter().min();
        self.daemon.wait(&fds, limit);
        if limit.is_some_and(|limit| instant.elapsed() >= limit) {
            // Rings that have filled up too are read anyway, or end the next wait at once.
            return Vec::new();
        }
        let filled = self
            .sources
            .iter()
            .filter(|(_, source)| is_readable(source));
        filled.map(|(&id, _)| id).collect()
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Disconnected(_) => self.purge_all(),
            // All work is done on start, as in upstream.
            Event::Connected | Event::Setup { .. } => {}
            Event::Start { instance, config } => self.start(instance, &config),
            Event::Stop { instance } => self.stop_instance(instance),
            Event::Flush {
                request_id,
                instances,
                ..
            } => self.flush(request_id, &instances),
            Event::ClearIncrementalState { instances } => {
                for id in instances {
                    if let Some(source) = self.sources.get(&id) {
                        self.mailbox.send(Message::Clear(source.key));
                    }
                }
            }
        }
    }

    fn start(&mut self, id: InstanceId, config: &DataSourceConfig) {
        let is_known = self.sources.contains_key(&id) || self.metatraces.contains_key(&id);
        let name = config.name.as_deref().unwrap_or_default();
        if is_known || ![LINUX_PERF, METATRACE].map(str::as_bytes).contains(&name) {
            return;
        }
        self.urgency.set(true);
        if let Err(error) = self.start_threads() {
            return self.failed(format!("threads cannot be started: {error}"));
        }
        self.next_key += 1;
        let key = SourceKey(self.next_key);
        if name == METATRACE.as_bytes() {
            self.start_metatrace(id, key, config)
        } else {
            self.start_perf(id, key, config)
        }
    }

    fn start_metatrace(&mut self, id: InstanceId, key: SourceKey, config: &DataSourceConfig) {
        let target = config.target_buffer.unwrap_or(0);
        let handle = self.daemon.handle();
        let writer = handle.create_writer(target, ExhaustedPolicy::StallThenDrop);
        self.mailbox
            .send(Message::StartMetatrace(key, Box::new(writer)));
        self.metatraces.insert(id, key);
    }

    fn start_perf(&mut self, id: InstanceId, key: SourceKey, config: &DataSourceConfig) {
        let target = config.target_buffer.unwrap_or(0);
        let wanted = Started {
            key,
            id,
            session: config.tracing_session_id.unwrap_or(0),
            config: config.perf_event_config.as_deref().unwrap_or_default(),
            options: &self.options,
            random: Clock::Monotonic.now() as u32,
        };
        let handle = self.daemon.handle();
        let writer = || handle.create_writer(target, ExhaustedPolicy::StallThenDrop);
        let daemon = &self.daemon;
        let mut remarks = Vec::new();
        let remark = |text: String| {
            remarks.push(text.clone());
            daemon.notify(Notice::Remark {
                source: LINUX_PERF.to_owned(),
                text,
            });
        };
        match start(&wanted, &mut self.shards, writer, &self.mailbox, remark) {
            Ok(source) => {
                for text in remarks {
                    self.mailbox.send(Message::Remark(key, text));
                }
                self.sources.insert(id, source);
                self.daemon.notify(Notice::Started {
                    source: LINUX_PERF.to_owned(),
                });
            }
            Err(error) => {
                self.shards.remove(id);
                let (writer, reason) = (Box::new(writer()), error.to_string());
                self.mailbox.send(Message::NotStarted(writer, reason));
                self.failed(format!("not started: {error}"));
            }
        }
    }

    fn start_threads(&mut self) -> io::Result<()> {
        if self.threads.is_some() {
            return Ok(());
        }
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let default = NonZeroUsize::new((cpus / 2).clamp(1, MAX_UNWINDERS));
        let count = self
            .options
            .unwinders
            .or(default)
            .unwrap_or(NonZeroUsize::MIN);
        let mailbox = Arc::clone(&self.mailbox);
        let collector = Collector::new(move || mailbox.send(Message::CollectMetatrace));
        let recorder = Arc::clone(collector.recorder());
        let writer = Writer::new(
            Arc::clone(&self.mailbox),
            self.daemon.handle().clone(),
            self.options.daemon.on_notice.clone(),
            self.options.kallsyms.clone(),
            Metatraces::new(collector),
        );
        let unwinders = Unwinders::start(count, &self.mailbox, &recorder)?;
        let thread = std::thread::Builder::new().name("perf-writer".to_owned());
        let writer = thread.spawn(move || writer.run())?;
        self.threads = Some(Threads { unwinders, writer });
        Ok(())
    }

    /// Raises the priority while there are data sources. Reports a failure to do so once it
    /// matters.
    fn hurry(&mut self) {
        self.urgency.set(!self.sources.is_empty());
        let has_lost = self.sources.values().any(PerfSource::has_lost);
        if let Some(text) = has_lost.then(|| self.urgency.reason()).flatten() {
            self.daemon.notify(Notice::Remark {
                source: LINUX_PERF.to_owned(),
                text,
            });
        }
    }

    fn failed(&self, reason: String) {
        self.daemon.notify(Notice::Failed {
            source: LINUX_PERF.to_owned(),
            reason,
        });
    }

    fn stop_instance(&mut self, id: InstanceId) {
        if let Some(key) = self.metatraces.remove(&id) {
            return self.ending_metatraces.push((key, id));
        }
        match self.sources.get_mut(&id) {
            Some(source) => {
                source.stop(Clock::Monotonic.now());
                self.mailbox.send(Message::Ending(source.key));
            }
            // The instance failed to start or has ended by itself: the writer may still have to
            // report that.
            None if self.threads.is_some() => {
                let action = Action::Stop {
                    source: SourceKey(0),
                    instance: id,
                };
                self.mailbox
                    .send(Message::Barrier(Arc::new(Barrier::new(1, action))));
            }
            None => self.daemon.handle().notify_stopped(id),
        }
    }

    /// Runs `run` with the threads and tables of the sources, unless the threads have never been
    /// started.
    fn with_context<R>(
        &mut self,
        run: impl FnOnce(&mut BTreeMap<InstanceId, PerfSource>, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let threads = self.threads.as_mut()?;
        let mut cx = Context {
            mailbox: &self.mailbox,
            unwinders: &mut threads.unwinders,
            lookup: &mut self.lookup,
        };
        Some(run(&mut self.sources, &mut cx))
    }

    fn run_sources(&mut self, has_filled: &[InstanceId]) {
        let now = Clock::Monotonic.now();
        let outcomes = self.with_context(|sources, cx| {
            let run = |(&id, source): (&InstanceId, &mut PerfSource)| {
                (id, source.run(now, has_filled.contains(&id), cx))
            };
            sources.iter_mut().map(run).collect::<Vec<_>>()
        });
        for (id, outcome) in outcomes.unwrap_or_default() {
            match outcome {
                Outcome::Runs => {}
                Outcome::Stopped => self.remove(id),
                Outcome::TooLarge { kb, limit } => {
                    self.failed(format!(
                        "the profiler holds {kb} kB, more than the {limit} kB of max_daemon_memory_kb: not sampling any more"
                    ));
                    self.end_by_guardrail(id);
                }
            }
        }
    }

    fn remove(&mut self, id: InstanceId) {
        self.sources.remove(&id);
        self.shards.remove(id);
    }

    fn end_by_guardrail(&mut self, id: InstanceId) {
        let ended = self.with_context(|sources, cx| {
            let source = sources.remove(&id)?;
            Some(source.end_by_guardrail(cx))
        });
        self.remove(id);
        // The service waits for the stop.
        if ended.flatten() == Some(true) {
            self.daemon.handle().notify_stopped(id);
        }
    }

    fn purge_all(&mut self) {
        self.flushes.forget();
        self.with_context(|sources, cx| {
            for (_, source) in std::mem::take(sources) {
                source.purge(cx);
            }
        });
        self.shards = Shards::default();
    }

    /// Writes and commits all samples so far before the request is answered.
    fn flush(&mut self, request: u64, instances: &[InstanceId]) {
        let key = |id| {
            let source = self.sources.get(id).map(|source| source.key);
            source.or_else(|| self.metatraces.get(id).copied())
        };
        let action = Action::Flush {
            request,
            sources: instances.iter().filter_map(key).collect(),
        };
        let flushed = self.with_context(|sources, cx| {
            // Through all sources, so that flushes are answered in order.
            let ways = sources.len() * (cx.unwinders.ways() - 1) + 1;
            let barrier = Arc::new(Barrier::new(ways, action));
            for (id, source) in sources.iter_mut() {
                if instances.contains(id) {
                    source.flush(cx);
                }
                source.send_barrier(cx, &barrier);
            }
            cx.mailbox.send(Message::Barrier(Arc::clone(&barrier)));
            barrier
        });
        match flushed {
            Some(barrier) => self.flushes.add(Instant::now(), barrier),
            None => self.daemon.handle().flush_done(request),
        }
    }

    fn check_flushes(&mut self) {
        for barrier in self.flushes.check(Instant::now(), &self.mailbox) {
            if let Action::Flush { request, .. } = barrier.action
                && barrier.claim()
            {
                self.daemon.handle().flush_done(request);
            }
        }
    }

    fn take_deliveries(&mut self) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        for taken in socket.receive(Instant::now()) {
            let descriptors = Descriptors {
                maps: taken.maps,
                mem: taken.memory,
            };
            self.with_context(|sources, cx| {
                for source in sources.values_mut() {
                    source.adopt(taken.pid, &descriptors, cx);
                }
            });
            self.lookup.hand_over(taken.pid, descriptors);
        }
    }

    /// Writes all samples, and ends all threads.
    fn end(mut self) {
        let now = Clock::Monotonic.now();
        for source in self.sources.values_mut() {
            source.stop(now);
        }
        self.with_context(|sources, cx| {
            for (_, mut source) in std::mem::take(sources) {
                source.flush(cx);
                source.finish(cx);
            }
        });
        if let Some(threads) = self.threads.take() {
            drop(threads.unwinders);
            self.mailbox.close();
            // A panic has already been reported.
            let _ = threads.writer.join();
        }
    }
}

/// Returns true if a ring of this source has filled up.
fn is_readable(source: &PerfSource) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let rings: Vec<_> = source.rings().collect();
    let mut fds: Vec<_> = rings
        .iter()
        .map(|ring| PollFd::new(*ring, PollFlags::IN))
        .collect();
    let at_once = Timespec::default();
    !fds.is_empty() && poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
