//! Starting up.

use std::io;
use std::time::Duration;

use ferretto_client::{Address, ProducerOptions, Scraping};

use crate::track_event::EventClock;
use crate::{engine, track_event};

/// Why tracing could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// The process may not have another thread or descriptor.
    System(io::Error),
}

ferretto_wire::error_text! {
    InitError {
        Self::System(error) => "cannot start tracing: {error}",
    }
    source {
        Self::System(error) => error,
    }
    from { System(io::Error) }
}

/// How this process takes part in recordings.
///
/// ```no_run
/// ferretto::Options::new().name("player").wait(std::time::Duration::from_secs(1)).init()?;
/// # Ok::<(), ferretto::InitError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    name: Option<String>,
    address: Option<Address>,
    memory_kb: u32,
    wait: Option<Duration>,
    clock: EventClock,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name under which recordings find this process; by default the name it was started by.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Where the service is; by default where the environment variable `PERFETTO_PRODUCER_SOCK_NAME` says, or at its
    /// usual place.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        self.address = Some(address);
        self
    }

    /// The size of the memory shared with the service, in KiB, a multiple of 4; by default 256. What cannot be fetched
    /// from there in time is lost.
    #[must_use]
    pub fn memory_kb(mut self, size: u32) -> Self {
        self.memory_kb = size;
        self
    }

    /// Waits in [`init`](Self::init) until recordings that are running already include this process, at most this
    /// long, and not at all if there is no service. Without this, events of the first milliseconds may be missing.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// The clock of all track events; by default [`EventClock::Boottime`]. To be chosen by the first call of
    /// [`init`](Self::init).
    #[must_use]
    pub fn clock(mut self, clock: EventClock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts a thread that connects to the service of this machine, now or as soon as there is one. The first call
    /// decides; later ones only wait, if told to.
    ///
    /// # Errors
    ///
    /// See [`InitError`]. The absence of a service is none.
    pub fn init(self) -> Result<(), InitError> {
        let options = ProducerOptions {
            name: self.name.unwrap_or_else(process_name),
            address: self.address,
            memory_size_hint: self.memory_kb.saturating_mul(1024),
            scraping: Scraping::Enabled,
            sdk_version: concat!("ferretto ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..ProducerOptions::default()
        };
        let clock = self.clock;
        let runtime = engine::start(options, |runtime| {
            track_event::choose_clock(clock);
            track_event::register(runtime);
        })?;
        if let Some(limit) = self.wait {
            runtime.wait_until_ready(limit);
        }
        Ok(())
    }
}

/// Makes this process part of recordings by the service of this machine. See [`Options`] for more control.
///
/// # Errors
///
/// See [`InitError`]. The absence of a service is none: it is waited for in the background.
pub fn init() -> Result<(), InitError> {
    Options::new().init()
}

/// What the process was started as.
fn process_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
