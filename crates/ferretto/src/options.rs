//! Setting up.

use std::io;
use std::ops::BitOr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferretto_client::transport::{self, Connect, ProducerPort};
use ferretto_client::{Address, ExhaustedPolicy, ProducerOptions, Scraping};
use ferretto_engine::{self as engine, Backend, BackendKind, Route, Settings};

use crate::interceptor;
use crate::track_event::{self, EventClock};

/// Why tracing could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The process may not have another thread or descriptor.
    System(io::Error),
    /// The custom service is wanted, but [`Options::custom`] does not say how to reach it.
    NoCustomBackend,
    /// The service inside this process is wanted, but the crate is built without feature
    /// `in-process`.
    NoInProcessBackend,
}

ferretto_wire::error_text! {
    InitError {
        Self::System(error) => "cannot start tracing: {error}",
        Self::NoCustomBackend => "nothing says how to reach the custom tracing service",
        Self::NoInProcessBackend => "ferretto is built without a tracing service of its own",
    }
    source { Self::System(error) => error }
    from { System(io::Error) }
}

/// A set of services that may record this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backends(u32);

impl Backends {
    /// The service inside this process.
    pub const IN_PROCESS: Self = Self(1);
    /// The service of this machine.
    pub const SYSTEM: Self = Self(2);
    /// The service that [`Options::custom`] leads to.
    pub const CUSTOM: Self = Self(4);

    /// The set that other libraries write as these bits; `None` if there is another bit.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !7 == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// True if all of `other` are in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Backends {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Default for Backends {
    fn default() -> Self {
        Self::SYSTEM
    }
}

/// Options for how this process takes part in recordings.
///
/// ```no_run
/// ferretto::Options::new().name("player").wait(std::time::Duration::from_secs(1)).init()?;
/// # Ok::<(), ferretto::InitError>(())
/// ```
#[derive(Debug, Default)]
pub struct Options {
    backends: Backends,
    producer: ProducerOptions,
    name: Option<String>,
    custom: Option<Arc<dyn Connect<ProducerPort>>>,
    socket: Option<OwnedFd>,
    machine_id: u32,
    wait: Option<Duration>,
    clock: EventClock,
    settings: Settings,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which services may record this process, at the same time if there are several; by
    /// default the machine's.
    #[must_use]
    pub fn backends(mut self, backends: Backends) -> Self {
        self.backends = backends;
        self
    }

    /// A way of one's own to a service, for [`Backends::CUSTOM`].
    #[must_use]
    pub fn custom(mut self, backend: Arc<dyn transport::Backend>) -> Self {
        self.custom = Some(backend);
        self
    }

    /// The machine this process seems to be on, for recordings by the service inside it; by default
    /// the service's own.
    #[must_use]
    pub fn machine_id(mut self, machine_id: u32) -> Self {
        self.machine_id = machine_id;
        self
    }

    /// The name under which recordings find this process; by default the name it was started by.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets where the machine's service is; by default where the environment variable
    /// `PERFETTO_PRODUCER_SOCK_NAME` says, or at its usual place.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        self.producer.address = Some(address);
        self
    }

    /// A socket that is connected to the machine's service already, for processes that may not open
    /// one. When that connection is lost there is no other.
    #[must_use]
    pub fn socket(mut self, socket: OwnedFd) -> Self {
        self.socket = Some(socket);
        self
    }

    /// The size of the memory shared with the service, in KiB, a multiple of 4; by default 256.
    /// Events that the service does not fetch from there in time are lost.
    #[must_use]
    pub fn memory_kb(mut self, size: u32) -> Self {
        self.producer.memory_size_hint = size.saturating_mul(1024);
        self
    }

    /// The size of the pages of that memory, in KiB: 4, 8, 16 or 32; by default 4. The service
    /// decides.
    #[must_use]
    pub fn page_kb(mut self, size: u32) -> Self {
        self.producer.page_size_hint = size.saturating_mul(1024);
        self
    }

    /// Sets how long full chunks of memory wait for others before the service is told of them; by
    /// default not at all. Fewer messages, but memory must be large enough for what is written
    /// meanwhile.
    #[must_use]
    pub fn commit_batch(mut self, time: Duration) -> Self {
        self.producer.commit_batch = time;
        self
    }

    /// Fills lengths of long packets in directly while their chunks wait, if the service supports
    /// it. Makes sense with [`commit_batch`](Self::commit_batch).
    #[must_use]
    pub fn direct_patching(mut self) -> Self {
        self.producer.direct_patching = true;
        self
    }

    /// Sets what track events do when the shared memory is full; by default they are dropped. Only
    /// the first set-up of the process decides.
    #[must_use]
    pub fn track_event_policy(mut self, policy: ExhaustedPolicy) -> Self {
        self.settings.track_event_policy = policy;
        self
    }

    /// Lets configs choose another policy for track events. Only the first set-up of the process
    /// decides.
    #[must_use]
    pub fn track_event_policy_by_config(mut self) -> Self {
        self.settings.track_event_policy_by_config = true;
        self
    }

    /// The number of the process's track, instead of one made from its start time and number. Only
    /// the first set-up of the process decides.
    #[must_use]
    pub fn process_uuid(mut self, uuid: u64) -> Self {
        self.settings.process_uuid = Some(uuid);
        self
    }

    /// Has readers keep the tracks of this process's threads apart from those that the kernel's
    /// events make. Only the first set-up of the process decides.
    #[must_use]
    pub fn separate_tracks(mut self) -> Self {
        self.settings.separate_tracks = true;
        self
    }

    /// At most one recording of each data source at a time. Only the first set-up of the process
    /// decides.
    #[must_use]
    pub fn single_instances(mut self) -> Self {
        self.settings.single_instances = true;
        self
    }

    /// Sets how long to wait in [`init`](Self::init) until recordings that are running already
    /// include this process, for all of its services. There is no wait for services that are not
    /// there.
    ///
    /// By default the machine's service is waited for, for at most 200 ms; five seconds if the
    /// environment names it in `PERFETTO_PRODUCER_SOCK_NAME`, as under `ferretto record`. It
    /// usually takes less than a millisecond. The first events after a wait that was too short may
    /// be missing; the recording says so. With [`Duration::ZERO`] there is no wait, and the
    /// recording says nothing about missing events.
    ///
    /// The machine's service is waited for in the same way when data sources are
    /// [registered](crate::register_data_source) after that.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// The clock of all track events; by default [`EventClock::Tsc`], the time of
    /// [`EventClock::Boottime`], read faster where the machine allows it. Choose the latter to
    /// compare times of events to the nanosecond with those of other programs or of the kernel.
    /// Only the first set-up of the process decides.
    #[must_use]
    pub fn clock(mut self, clock: EventClock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts a thread that connects to the services, now or as soon as they are there, and
    /// [waits](Self::wait) for recordings that are running. Later calls add services of kinds that
    /// are not there yet; the options of those that are stay as they are. They also wait, if told
    /// to.
    ///
    /// # Errors
    ///
    /// See [`InitError`]. The absence of a service is none.
    pub fn init(self) -> Result<(), InitError> {
        let wait = self.wait;
        if engine::decide_settings(self.settings.clone()) {
            track_event::choose_clock(self.clock);
        }
        track_event::register();
        interceptor::provide_console();
        engine::start(self.into_backends()?)?;
        engine::wait_for_recordings(wait);
        Ok(())
    }

    fn into_backends(self) -> Result<Vec<Backend>, InitError> {
        let options = ProducerOptions {
            name: self.name.unwrap_or_else(process_name),
            scraping: Scraping::Enabled,
            sdk_version: concat!("ferretto ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..self.producer
        };
        let backend = |kind, route| Backend {
            kind,
            patience: match self.wait {
                Some(limit) if kind == BackendKind::System => limit,
                _ => Backend::usual_patience(kind, &options, &route),
            },
            options: options.clone(),
            route,
        };
        let mut backends = Vec::new();
        if self.backends.contains(Backends::SYSTEM) {
            let route = match self.socket {
                Some(socket) => Route::Given(Mutex::new(Some(socket))),
                None => Route::Socket,
            };
            backends.push(backend(BackendKind::System, route));
        }
        if self.backends.contains(Backends::IN_PROCESS) {
            let route = in_process(self.machine_id)?;
            backends.push(backend(BackendKind::InProcess, route));
        }
        if self.backends.contains(Backends::CUSTOM) {
            let custom = self.custom.ok_or(InitError::NoCustomBackend)?;
            backends.push(backend(BackendKind::Custom, Route::Through(custom)));
        }
        Ok(backends)
    }
}

#[cfg(feature = "in-process")]
fn in_process(machine_id: u32) -> Result<Route, InitError> {
    let service = crate::in_process::InProcess::shared().on_machine(machine_id);
    Ok(Route::Through(Arc::new(service)))
}

#[cfg(not(feature = "in-process"))]
fn in_process(_machine_id: u32) -> Result<Route, InitError> {
    Err(InitError::NoInProcessBackend)
}

/// Makes this process part of recordings by the service of this machine. See [`Options`] for more
/// control.
///
/// When this returns, recordings that were running record what comes next: it
/// [waits](Options::wait) for them. If there is no service it returns at once.
///
/// # Errors
///
/// See [`InitError`]. The absence of a service is none: it is waited for in the background.
pub fn init() -> Result<(), InitError> {
    Options::new().init()
}

/// Returns what the process was started as.
fn process_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
