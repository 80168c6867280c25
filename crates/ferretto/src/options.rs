//! Set-up of tracing.

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

/// The reason why tracing could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The process cannot create a thread or descriptor.
    System(io::Error),
    /// The custom service was requested, but [`Options::custom`] was not called.
    NoCustomBackend,
    /// The in-process service was requested, but the crate is built without the feature
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
    /// The in-process service.
    pub const IN_PROCESS: Self = Self(1);
    /// The machine's service.
    pub const SYSTEM: Self = Self(2);
    /// The service set by [`Options::custom`].
    pub const CUSTOM: Self = Self(4);

    /// Returns the set with these bits, as other libraries write it; `None` if there is another
    /// bit.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !7 == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns true if all of `other` are in the set.
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

/// Options for the tracing of this process.
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
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the services that may record this process, possibly at the same time; by default the
    /// machine's.
    #[must_use]
    pub fn backends(mut self, backends: Backends) -> Self {
        self.backends = backends;
        self
    }

    /// Sets a custom connection to a service, for [`Backends::CUSTOM`].
    #[must_use]
    pub fn custom(mut self, backend: Arc<dyn transport::Backend>) -> Self {
        self.custom = Some(backend);
        self
    }

    /// Sets the machine id of this process in recordings by the in-process service; by default that
    /// of the service.
    #[must_use]
    pub fn machine_id(mut self, machine_id: u32) -> Self {
        self.machine_id = machine_id;
        self
    }

    /// Sets the name by which recordings select this process; by default the name of its program.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the address of the machine's service; by default the value of the environment variable
    /// `PERFETTO_PRODUCER_SOCK_NAME`, or the usual address.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        self.producer.address = Some(address);
        self
    }

    /// Sets a socket that is already connected to the machine's service, for processes that may not
    /// open one. The process does not reconnect if the connection is lost.
    #[must_use]
    pub fn socket(mut self, socket: OwnedFd) -> Self {
        self.socket = Some(socket);
        self
    }

    /// Sets the size of the memory shared with the service, in KiB, a multiple of 4. The default is
    /// 256. Events that the service does not read in time are lost.
    #[must_use]
    pub fn memory_kb(mut self, size: u32) -> Self {
        self.producer.memory_size_hint = size.saturating_mul(1024);
        self
    }

    /// Sets the page size of that memory, in KiB: 4, 8, 16 or 32. The default is 4. The service may
    /// choose another.
    #[must_use]
    pub fn page_kb(mut self, size: u32) -> Self {
        self.producer.page_size_hint = size.saturating_mul(1024);
        self
    }

    /// Sets how long full chunks wait for others before they are committed; by default not at all.
    /// A delay saves messages, but the memory must be large enough for the data written meanwhile.
    #[must_use]
    pub fn commit_batch(mut self, time: Duration) -> Self {
        self.producer.commit_batch = time;
        self
    }

    /// Patches the sizes of long packets directly while their chunks wait, if the service supports
    /// this. Useful with [`commit_batch`](Self::commit_batch).
    #[must_use]
    pub fn direct_patching(mut self) -> Self {
        self.producer.direct_patching = true;
        self
    }

    /// Sets the behaviour of track events when the shared memory is full; by default they are
    /// dropped. Only the first set-up of the process takes effect.
    #[must_use]
    pub fn track_event_policy(mut self, policy: ExhaustedPolicy) -> Self {
        self.settings.track_event_policy = policy;
        self
    }

    /// Allows configs to select another policy for track events. Only the first set-up of the
    /// process takes effect.
    #[must_use]
    pub fn track_event_policy_by_config(mut self) -> Self {
        self.settings.track_event_policy_by_config = true;
        self
    }

    /// Sets the uuid of the process's track; by default it is computed from the process id and
    /// start time. Only the first set-up of the process takes effect.
    #[must_use]
    pub fn process_uuid(mut self, uuid: u64) -> Self {
        self.settings.process_uuid = Some(uuid);
        self
    }

    /// Makes readers keep the tracks of this process's threads separate from those of the kernel's
    /// events. Only the first set-up of the process takes effect.
    #[must_use]
    pub fn separate_tracks(mut self) -> Self {
        self.settings.separate_tracks = true;
        self
    }

    /// Allows only one instance of each data source at a time. Only the first set-up of the process
    /// takes effect.
    #[must_use]
    pub fn single_instances(mut self) -> Self {
        self.settings.single_instances = true;
        self
    }

    /// Sets how long [`init`](Self::init) waits until active recordings include this process, for
    /// all of its services. Absent services are not waited for.
    ///
    /// The default limit is 200 ms for the machine's service; five seconds if the environment
    /// variable `PERFETTO_PRODUCER_SOCK_NAME` is set, as under `ferretto record`. The wait usually
    /// takes less than a millisecond. If it was too short, the first events may be missing, and the
    /// recording reports that. With [`Duration::ZERO`], there is no wait, and the recording does
    /// not report missing events.
    ///
    /// The limit also applies to later [registrations](crate::register_data_source) of data
    /// sources.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Sets the clock of all track events. The default is [`EventClock::Tsc`], which shows the time
    /// of [`EventClock::Boottime`] but is faster to read where the machine allows it. Choose the
    /// latter to compare timestamps to the nanosecond with those of other programs or of the
    /// kernel. Only the first set-up of the process takes effect.
    #[must_use]
    pub fn clock(mut self, clock: EventClock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts a thread that connects to the services, now or when they appear, and
    /// [waits](Self::wait) for active recordings. Later calls add services of other kinds; the
    /// options of existing ones do not change. They also wait, if configured.
    ///
    /// # Errors
    ///
    /// See [`InitError`]. An absent service is not an error.
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

/// Makes this process a producer of the machine's service. See [`Options`] for more control.
///
/// When this returns, active recordings include all further events: it [waits](Options::wait) for
/// them. Without a service it returns at once.
///
/// # Errors
///
/// See [`InitError`]. An absent service is not an error: the process connects in the background
/// when it appears.
pub fn init() -> Result<(), InitError> {
    Options::new().init()
}

/// Returns the name of this process's program.
fn process_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
