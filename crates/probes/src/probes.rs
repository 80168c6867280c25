//! The producer that runs the data sources.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ferretto_client::{
    Daemon, DaemonOptions, Event, ExhaustedPolicy, InstanceId, Notice, ProducerOptions, Scraping,
    Stopper, Timer,
};
use ferretto_format::{FlushFlags, FlushReason};
use ferretto_metatrace::{Collector, Counter, Event as Activity, METATRACE, Recorder};
use ferretto_priority::{InvalidPriority, Priority, ThreadBoost};
use ferretto_proto::{DataSourceConfig, decode_lazy};

use crate::PacketSink;
use crate::clock::monotonic_ns;
use crate::ftrace::{Controller, FTRACE};
use crate::registration::descriptors;
use crate::source::{DataSource, Kind};

/// Name under which the producer is known.
const PRODUCER_NAME: &str = "perfetto.traced_probes";
/// The size of the shared memory: enough for the packets of one drain of busy kernel buffers before
/// the service reads them.
const MEMORY_SIZE: u32 = 2 << 20;
/// Page size of the shared memory.
const PAGE_SIZE: u32 = 32 << 10;
/// The minimum time between reads of full kernel buffers, in milliseconds. A level of a page or two
/// is reached again at once, and must not block this thread.
const FILLED_PAUSE_MS: u32 = 1;
/// The period of checks of pending flushes, in milliseconds.
const FLUSH_PERIOD_MS: u32 = 5;

/// The producer: runs the data sources for the sessions of the service.
///
/// A single thread waits for the service and for timers, reads the kernel and writes packets. It
/// reconnects to a service that goes away; meanwhile nothing is recorded and the kernel's state is
/// restored.
#[derive(Debug)]
pub struct Probes {
    daemon: Daemon,
    ftrace: Controller,
    drain: Option<Timer>,
    /// The end of the pause before full kernel buffers are read again.
    pause: Option<Timer>,
    instances: BTreeMap<InstanceId, Instance>,
    boost: ThreadBoost,
    /// The recorder of this thread's own activities.
    metatrace: Collector<InstanceId>,
    /// Metatrace instances that end after all other ending instances.
    ending: Vec<InstanceId>,
    /// Pending flushes in the order of the requests: the reply to one also answers earlier ones.
    flushes: VecDeque<PendingFlush>,
    /// Data sources of stopped instances, until their last flush is done.
    leaving: Vec<(InstanceId, Box<dyn DataSource>)>,
    /// The next check of pending flushes.
    flush_timer: Option<Timer>,
}

/// A flush that some instances have not completed yet.
#[derive(Debug)]
struct PendingFlush {
    request_id: u64,
    ids: Vec<InstanceId>,
    waits_for: Vec<InstanceId>,
}

/// An instance of a data source.
#[derive(Debug)]
struct Instance {
    session: u64,
    started: bool,
    /// The priority that the config requests for this thread.
    priority: Option<Priority>,
    source: Source,
    poll: Option<Timer>,
}

#[derive(Debug)]
enum Source {
    /// A data source in the controller.
    Ftrace,
    /// A data source in the collector.
    Metatrace { target: u32 },
    /// A data source in this instance.
    Own(&'static Kind, Box<dyn DataSource>),
}

impl Source {
    fn name(&self) -> &'static str {
        match self {
            Self::Ftrace => FTRACE,
            Self::Metatrace { .. } => METATRACE,
            Self::Own(kind, _) => kind.name,
        }
    }

    /// Returns the data source, if it is in this instance.
    fn own(&mut self) -> Option<&mut dyn DataSource> {
        match self {
            Self::Own(_, source) => Some(source.as_mut()),
            Self::Ftrace | Self::Metatrace { .. } => None,
        }
    }
}

impl Instance {
    /// Polls the data source, if it is polled, and sets the time of the next poll.
    fn run_poll(&mut self, recorder: &Recorder) {
        let Source::Own(kind, source) = &mut self.source else {
            return;
        };
        let Some(period) = source.poll_period_ms() else {
            self.poll = None;
            return;
        };
        let scope = kind.polling.map(|activity| recorder.scope(activity));
        source.poll();
        drop(scope);
        self.poll = Some(next_tick(monotonic_ns(), period));
    }

    /// Polls the data source for the last time, if it is polled and was started.
    fn run_last_poll(&mut self, recorder: &Recorder) {
        if let Source::Own(kind, source) = &mut self.source
            && self.started
            && source.poll_period_ms().is_some()
        {
            let _scope = kind.polling.map(|activity| recorder.scope(activity));
            source.poll_last();
        }
    }
}

impl Probes {
    /// Creates the producer, which connects in [`Probes::run`].
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new(options: DaemonOptions) -> io::Result<Self> {
        let producer = ProducerOptions {
            name: PRODUCER_NAME.to_owned(),
            memory_size_hint: MEMORY_SIZE,
            page_size_hint: PAGE_SIZE,
            // Upstream's probes disable this, and lose the content of incomplete chunks when
            // they are killed.
            scraping: Scraping::Enabled,
            ..ProducerOptions::default()
        };
        let daemon = Daemon::new(options, producer, descriptors())?;
        let handle = daemon.handle().clone();
        // A killed daemon could not restore the kernel's state.
        crate::ftrace::reap();
        Ok(Self {
            daemon,
            ftrace: Controller::new(),
            drain: None,
            pause: None,
            instances: BTreeMap::new(),
            boost: ThreadBoost::new(),
            metatrace: Collector::new(move || handle.wake()),
            ending: Vec::new(),
            flushes: VecDeque::new(),
            leaving: Vec::new(),
            flush_timer: None,
        })
    }

    /// Returns a handle that stops [`Probes::run`].
    pub fn stopper(&self) -> Stopper {
        self.daemon.stopper()
    }

    /// Runs until stopped. Restores the kernel's state before it returns.
    pub fn run(mut self) {
        while let Some(events) = self.daemon.turn() {
            for event in events {
                self.handle_event(event);
            }
            self.end_metatraces();
            self.run_timers(monotonic_ns());
            self.metatrace.collect();
            let now = monotonic_ns();
            let due = self
                .instances
                .values()
                .filter_map(|instance| instance.poll)
                .chain(self.drain)
                .chain(self.pause)
                .chain(self.flush_timer);
            let limit = due.map(|timer| timer.until(now)).min();
            let full = match self.pause {
                Some(_) => Vec::new(),
                None => self.ftrace.watched(),
            };
            self.daemon.wait(&full, limit);
        }
        let ids: Vec<InstanceId> = self.instances.keys().copied().collect();
        for id in ids {
            self.stop_instance(id);
        }
        for (id, mut source) in std::mem::take(&mut self.leaving) {
            source.flush();
            self.daemon.handle().notify_stopped(id);
        }
        self.end_metatraces();
    }

    fn end_metatraces(&mut self) {
        for id in self.ending.drain(..) {
            self.metatrace.stop(&id);
            self.daemon.handle().notify_stopped(id);
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            // The instances have already been stopped.
            Event::Connected | Event::Disconnected(_) => {}
            Event::Setup { instance, config } => self.set_up(instance, &config),
            Event::Start { instance, .. } => self.start(instance),
            Event::Stop { instance } => self.stop_instance(instance),
            Event::Flush {
                request_id,
                instances,
                flags,
            } => {
                // A copy of the buffers ends here.
                if FlushFlags(flags).reason() == FlushReason::Clone {
                    self.poll_last(&instances);
                }
                let waits_for = self.begin_flush(&instances);
                self.flushes.push_back(PendingFlush {
                    request_id,
                    ids: instances,
                    waits_for,
                });
                self.go_on_flushing();
            }
            Event::ClearIncrementalState { instances } => {
                for id in instances {
                    let instance = self.instances.get_mut(&id).filter(|it| it.started);
                    if let Some(source) = instance.and_then(|it| it.source.own()) {
                        source.clear_incremental_state();
                    }
                }
            }
        }
    }

    fn set_up(&mut self, id: InstanceId, config: &DataSourceConfig) {
        match self.create(id, config) {
            Ok(source) => {
                let session = config.tracing_session_id.unwrap_or(0);
                let instance = Instance {
                    session,
                    started: false,
                    priority: self.wanted_priority(config),
                    source,
                    poll: None,
                };
                self.instances.insert(id, instance);
                self.update_priority(&source_name(config));
            }
            // The protocol cannot report this to the service: the start is just never confirmed.
            Err(reason) => self.failed(&source_name(config), reason),
        }
    }

    fn create(&mut self, id: InstanceId, config: &DataSourceConfig) -> Result<Source, String> {
        let unusable = |error| format!("its config cannot be decoded: {error}");
        let target = config.target_buffer.unwrap_or(0);
        let writer = self
            .daemon
            .handle()
            .create_writer(target, ExhaustedPolicy::StallThenDrop);
        let sink: Box<dyn PacketSink> = Box::new(writer);
        let name = source_name(config);
        match &*name {
            FTRACE => {
                let wanted = decode_lazy(&config.ftrace_config).map_err(unusable)?;
                self.ftrace
                    .set_up(id.0, &wanted, sink)
                    .map_err(|error| error.to_string())?;
                Ok(Source::Ftrace)
            }
            METATRACE => Ok(Source::Metatrace { target }),
            name => {
                let kind = Kind::find(name).ok_or("not a data source of this program")?;
                let problems = |problem: &str| self.failed(kind.name, problem.to_owned());
                let source = (kind.create)(config, sink, &problems);
                let source = source.map_err(|error| error.to_string())?;
                Ok(Source::Own(kind, source))
            }
        }
    }

    /// Returns the priority that the config requests. Recording continues without one that is
    /// invalid or refused.
    fn wanted_priority(&self, config: &DataSourceConfig) -> Option<Priority> {
        let boost = config.priority_boost.as_option()?;
        let wanted = Priority::from_config(boost);
        let report = |error: &InvalidPriority| {
            let reason = format!("its priority is not raised: {error}");
            self.failed(&source_name(config), reason);
        };
        wanted.inspect_err(report).ok()
    }

    /// Sets this thread's priority to the highest one of all instances, after a change of `source`.
    fn update_priority(&mut self, source: &str) {
        let wanted = self.instances.values().filter_map(|i| i.priority).max();
        if let Err(error) = self.boost.set(wanted) {
            self.failed(source, format!("the priority stays as it is: {error}"));
        }
    }

    fn failed(&self, source: &str, reason: String) {
        self.daemon.notify(Notice::Failed {
            source: source.to_owned(),
            reason,
        });
    }

    fn start(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut instance.started, true) {
            return;
        }
        let recorder = Arc::clone(self.metatrace.recorder());
        match &mut instance.source {
            Source::Ftrace => {
                if let Err(error) = self.ftrace.start(id.0) {
                    self.daemon.notify(Notice::Failed {
                        source: FTRACE.to_owned(),
                        reason: error.to_string(),
                    });
                }
            }
            Source::Own(kind, source) => {
                let _scope = kind.starting.map(|activity| recorder.scope(activity));
                source.start();
            }
            Source::Metatrace { target } => {
                let handle = self.daemon.handle();
                let writer = handle.create_writer(*target, ExhaustedPolicy::StallThenDrop);
                self.metatrace.start(id, writer);
            }
        }
        // The first values are those before the start of a recorded command.
        instance.run_poll(&recorder);
        self.count_sessions();
        self.reset_drain_timer();
        self.daemon.handle().notify_started(id);
    }

    fn stop_instance(&mut self, id: InstanceId) {
        self.poll_last(&[id]);
        let Some(instance) = self.instances.remove(&id) else {
            // Its set-up failed: there is nothing to wait for.
            self.daemon.handle().notify_stopped(id);
            return;
        };
        if instance.priority.is_some() {
            self.update_priority(instance.source.name());
        }
        match instance.source {
            Source::Ftrace => {
                self.ftrace.stop(id.0);
                self.count_sessions();
                self.reset_drain_timer();
            }
            Source::Own(_, mut source) => {
                if !source.begin_flush() {
                    self.leaving.push((id, source));
                    self.go_on_flushing();
                    return;
                }
            }
            Source::Metatrace { .. } => return self.ending.push(id),
        }
        self.daemon.handle().notify_stopped(id);
    }

    /// Counts the recordings of kernel events in the metatrace.
    fn count_sessions(&self) {
        self.metatrace
            .recorder()
            .counter(Counter::FtraceSessions, || {
                let sources = self.instances.values().filter(|instance| instance.started);
                let of_kernel =
                    sources.filter(|instance| matches!(instance.source, Source::Ftrace));
                of_kernel.count() as i32
            });
    }

    /// Polls instances whose recording, or a copy of it, ends.
    fn poll_last(&mut self, ids: &[InstanceId]) {
        let recorder = self.metatrace.recorder();
        for id in ids {
            if let Some(instance) = self.instances.get_mut(id) {
                instance.run_last_poll(recorder);
            }
        }
    }

    /// Starts to flush instances. Returns those that need more time.
    fn begin_flush(&mut self, ids: &[InstanceId]) -> Vec<InstanceId> {
        let is_ftrace = |id: &&InstanceId| {
            self.instances
                .get(id)
                .is_some_and(|instance| matches!(instance.source, Source::Ftrace))
        };
        let ftrace: Vec<u64> = ids.iter().filter(is_ftrace).map(|id| id.0).collect();
        if !ftrace.is_empty() {
            let recorder = Arc::clone(self.metatrace.recorder());
            let _scope = recorder.scope(Activity::FtraceCpuFlush);
            self.ftrace.flush(&ftrace);
            self.pass_metadata_on();
        }
        let mut waits_for = Vec::new();
        for id in ids {
            let instance = self.instances.get_mut(id);
            if let Some(source) = instance.and_then(|instance| instance.source.own())
                && !source.begin_flush()
            {
                waits_for.push(*id);
            }
        }
        waits_for
    }

    /// Continues pending flushes, and replies to completed ones.
    fn go_on_flushing(&mut self) {
        let mut done = Vec::new();
        let ids = self.flushes.iter().flat_map(|flush| &flush.waits_for);
        let mut ids: Vec<InstanceId> = ids.copied().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let source = self.instances.get_mut(&id);
            let source = source.and_then(|instance| instance.source.own());
            // A source that was stopped meanwhile is flushed as it ends.
            if source.is_none_or(DataSource::is_flushed) {
                done.push(id);
            }
        }
        for flush in &mut self.flushes {
            flush.waits_for.retain(|id| !done.contains(id));
        }
        while self
            .flushes
            .front()
            .is_some_and(|flush| flush.waits_for.is_empty())
            && let Some(flush) = self.flushes.pop_front()
        {
            // Last, since it records the flushes of the others.
            for id in &flush.ids {
                self.metatrace.flush(id);
            }
            self.daemon.handle().flush_done(flush.request_id);
        }
        let mut left = Vec::new();
        for (id, mut source) in std::mem::take(&mut self.leaving) {
            if source.is_flushed() {
                self.daemon.handle().notify_stopped(id)
            } else {
                left.push((id, source))
            }
        }
        self.leaving = left;
        let is_over = self.flushes.is_empty() && self.leaving.is_empty();
        self.flush_timer = if is_over {
            None
        } else {
            Some(next_tick(monotonic_ns(), FLUSH_PERIOD_MS))
        };
    }

    /// Passes the metadata of each session's kernel events to its process data sources.
    fn pass_metadata_on(&mut self) {
        let instances = &mut self.instances;
        let recorder = Arc::clone(self.metatrace.recorder());
        self.ftrace.take_metadata(|id, metadata| {
            let Some(session) = instances
                .get(&InstanceId(id))
                .map(|instance| instance.session)
            else {
                return;
            };
            let of_session = |it: &&mut Instance| it.session == session && it.started;
            for instance in instances.values_mut().filter(of_session) {
                if let Source::Own(kind, source) = &mut instance.source
                    && let Some(activity) = kind.on_metadata
                {
                    let _scope = recorder.scope(activity);
                    source.on_metadata(metadata);
                }
            }
        });
    }

    fn reset_drain_timer(&mut self) {
        let now = monotonic_ns();
        self.drain = self
            .ftrace
            .drain_period_ms()
            .map(|period| next_tick(now, period));
    }

    /// Reads full kernel buffers, at most once in [`FILLED_PAUSE_MS`].
    fn read_filled(&mut self, now: u64) {
        if self.pause.is_some_and(|pause| !pause.is_due(now)) {
            return;
        }
        self.pause = None;
        let recorder = Arc::clone(self.metatrace.recorder());
        let scope = recorder.scope(Activity::FtraceCpuBufferWatermark);
        let Some(more) = self.ftrace.read_filled() else {
            return scope.cancel();
        };
        drop(scope);
        self.pass_metadata_on();
        self.pause = Some(next_tick(now, FILLED_PAUSE_MS));
        if more {
            self.drain = Some(Timer::at(now));
        }
    }

    fn run_timers(&mut self, now: u64) {
        self.read_filled(now);
        if self.flush_timer.is_some_and(|timer| timer.is_due(now)) {
            self.go_on_flushing();
        }
        if self.drain.is_some_and(|timer| timer.is_due(now)) {
            let recorder = Arc::clone(self.metatrace.recorder());
            let scope = recorder.scope(Activity::FtraceReadTick);
            let more = self.ftrace.read();
            drop(scope);
            self.pass_metadata_on();
            self.reset_drain_timer();
            if more {
                self.drain = self.drain.map(|_| Timer::at(now));
            }
        }
        let recorder = Arc::clone(self.metatrace.recorder());
        for instance in self.instances.values_mut() {
            if instance.poll.is_some_and(|timer| timer.is_due(now)) {
                instance.run_poll(&recorder);
            }
        }
    }
}

fn source_name(config: &DataSourceConfig) -> String {
    String::from_utf8_lossy(config.name.as_deref().unwrap_or_default()).into_owned()
}

/// Returns a timer that is due at the next multiple of the period after `now`.
fn next_tick(now: u64, period_ms: u32) -> Timer {
    Timer::next(now, Duration::from_millis(period_ms.max(1).into()), 0)
}
