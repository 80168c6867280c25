//! The background thread and what it does.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ferretto_client::{Event, InstanceId, Producer, ProducerHandle, ProducerOptions};
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};

use super::slots::lock;
use crate::interceptor;

static RUNTIME: OnceLock<Arc<Runtime>> = OnceLock::new();

/// Held while starting, so that only one thread does.
static STARTING: Mutex<()> = Mutex::new(());

/// The process's background thread, if it was started.
pub fn runtime() -> Option<&'static Arc<Runtime>> {
    RUNTIME.get()
}

/// The process's background thread. The first call starts it, and `introduce` can then offer data sources.
pub fn start(
    options: ProducerOptions,
    introduce: impl FnOnce(&Runtime),
) -> io::Result<&'static Arc<Runtime>> {
    let _starting = lock(&STARTING);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Runtime::start(options)?;
    introduce(&runtime);
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// A data source, whatever its type. Called on the background thread only.
pub trait Source: Send {
    /// Prepares an instance and returns its place; `None` if there are too many.
    fn setup(&mut self, config: &DataSourceConfig, handle: &ProducerHandle) -> Option<usize>;
    /// Starts recording.
    fn start(&mut self, place: usize);
    /// Stops recording and gives the place up.
    fn stop(&mut self, place: usize);
    /// Hands over what is held.
    fn flush(&mut self, place: usize);
    /// Starts the incremental state anew.
    fn clear_incremental_state(&mut self, place: usize);
}

/// What other threads ask of the background thread.
pub enum Command {
    /// Offer a data source, or an updated description of one.
    Register(DataSourceDescriptor, Option<Box<dyn Source>>),
    /// Call this once the service has processed everything before; drop it if there is no service.
    Sync(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Register(..) => "Register",
            Self::Sync(_) => "Sync",
        })
    }
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Connecting,
    /// Sessions that were running when this process connected have been started.
    Ready,
    /// There is no service, at present.
    Absent,
}

/// The link between the background thread and everyone else.
pub struct Runtime {
    commands: Mutex<VecDeque<Command>>,
    handle: ProducerHandle,
    progress: Mutex<Progress>,
    progressed: Condvar,
}

impl Runtime {
    /// Starts the background thread.
    fn start(options: ProducerOptions) -> io::Result<Arc<Self>> {
        let producer = Producer::new(options)?;
        let runtime = Arc::new(Self {
            commands: Mutex::default(),
            handle: producer.handle(),
            progress: Mutex::default(),
            progressed: Condvar::new(),
        });
        let shared = Arc::clone(&runtime);
        std::thread::Builder::new()
            .name("ferretto".to_owned())
            .spawn(move || Driver::new(producer, shared).run())?;
        Ok(runtime)
    }

    pub fn send(&self, command: Command) {
        lock(&self.commands).push_back(command);
        self.handle.wake();
    }

    /// Waits until the connection is ready or there is none; returns whether it is ready.
    pub fn wait_until_ready(&self, limit: Duration) -> bool {
        let progress = lock(&self.progress);
        let waiting = |progress: &mut Progress| *progress == Progress::Connecting;
        let (progress, _) = self
            .progressed
            .wait_timeout_while(progress, limit, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        *progress == Progress::Ready
    }

    fn set_progress(&self, progress: Progress) {
        *lock(&self.progress) = progress;
        self.progressed.notify_all();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// The background thread's state.
struct Driver {
    producer: Producer,
    runtime: Arc<Runtime>,
    sources: Vec<(Vec<u8>, Box<dyn Source>)>,
    /// Source and place of every instance.
    instances: BTreeMap<InstanceId, (usize, usize)>,
    /// Set when the service has answered that everything before was processed.
    synced: Arc<AtomicBool>,
}

impl Driver {
    fn new(producer: Producer, runtime: Arc<Runtime>) -> Self {
        Self {
            producer,
            runtime,
            sources: Vec::new(),
            instances: BTreeMap::new(),
            synced: Arc::default(),
        }
    }

    /// Runs for as long as the process does. What is recorded but not sent when it ends, the service takes from the
    /// shared memory.
    fn run(mut self) {
        loop {
            // In this order: what is asked for after this call makes the wait below a short one.
            self.producer.process(Instant::now());
            self.run_commands();
            while let Some(event) = self.producer.poll_event() {
                self.handle(event);
            }
            if self.synced.swap(false, Ordering::Acquire) {
                self.runtime.set_progress(Progress::Ready);
            }
            self.producer.wait(None);
        }
    }

    fn run_commands(&mut self) {
        loop {
            let command = lock(&self.runtime.commands).pop_front();
            match command {
                Some(Command::Register(descriptor, source)) => {
                    if let Some(source) = source {
                        let name = descriptor.name.clone().unwrap_or_default();
                        self.sources.push((name, source));
                    }
                    self.producer.register(descriptor);
                }
                Some(Command::Sync(callback)) => {
                    self.runtime.handle.sync(callback);
                }
                None => return,
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected => {
                let synced = Arc::clone(&self.synced);
                self.runtime
                    .handle
                    .sync(move || synced.store(true, Ordering::Release));
            }
            Event::Disconnected(_) => self.runtime.set_progress(Progress::Absent),
            Event::Setup { instance, config } => self.set_up(instance, &config),
            Event::Start { instance, .. } => {
                self.with_place(instance, |source, place| source.start(place));
                self.runtime.handle.notify_started(instance);
            }
            Event::Stop { instance } => {
                self.with_place(instance, |source, place| source.stop(place));
                self.instances.remove(&instance);
                self.runtime.handle.notify_stopped(instance);
            }
            Event::Flush {
                request_id,
                instances,
                ..
            } => {
                for instance in instances {
                    self.with_place(instance, |source, place| source.flush(place));
                }
                self.runtime.handle.flush_done(request_id);
            }
            Event::ClearIncrementalState { instances } => {
                for instance in instances {
                    self.with_place(instance, |source, place| {
                        source.clear_incremental_state(place);
                    });
                }
            }
        }
    }

    fn set_up(&mut self, instance: InstanceId, config: &DataSourceConfig) {
        let name = config.name.as_deref().unwrap_or_default();
        let handle = match interceptor::writers(config) {
            Some(writers) => self.runtime.handle.with_writers(writers),
            None => self.runtime.handle.clone(),
        };
        let sources = self.sources.iter_mut().enumerate();
        for (index, (_, source)) in sources.filter(|(_, (known, _))| known == name) {
            if let Some(place) = source.setup(config, &handle) {
                self.instances.insert(instance, (index, place));
                return;
            }
        }
    }

    fn with_place(&mut self, instance: InstanceId, act: impl FnOnce(&mut dyn Source, usize)) {
        if let Some(&(source, place)) = self.instances.get(&instance) {
            act(&mut *self.sources[source].1, place);
        }
    }
}
