//! Startup tracing: recording before a service asks for it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ferretto_engine::{self as engine, BackendKind, StartupEvent, StartupRequest};
use ferretto_proto::TraceConfig;

/// The default time limit for the recording to start.
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A recording from the start of a program, before a service has asked for it, or is even running.
///
/// Events stay in the memory of the process, and the commits of other recordings are held back,
/// until a recording with the same config starts and adopts them. If none starts in time, the
/// events are discarded.
///
/// ```no_run
/// # use ferretto::proto::TraceConfig;
/// # fn start(config: TraceConfig) -> Result<(), Box<dyn std::error::Error>> {
/// ferretto::init()?;
/// let tracing = ferretto::StartupTracingOptions::new(config).start()?;
/// ferretto::instant!("app", "the very first");
/// # Ok(())
/// # }
/// ```
///
/// Dropping this does not end startup tracing.
#[derive(Debug)]
pub struct StartupTracing {
    number: u64,
    sources: usize,
}

impl StartupTracing {
    /// Returns the number of data sources that are recording.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Stops the data sources that no recording has adopted yet, and discards their packets.
    pub fn abort(self) {
        engine::abort_startup(self.number);
    }
}

/// Options of startup tracing.
pub struct StartupTracingOptions {
    config: TraceConfig,
    backend: BackendKind,
    timeout: Option<Duration>,
    on_adopted: Option<Box<dyn FnOnce() + Send>>,
    on_aborted: Option<Box<dyn FnOnce() + Send>>,
}

/// The reason why startup tracing cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupError {
    /// [`init`](crate::init()) was not called.
    NotInitialised,
    /// The in-process service needs no startup tracing: a recording there starts at once.
    InProcess,
    /// The config names no data source of this process, all of them already have eight instances,
    /// or the process was not set up for this service.
    NothingToRecord,
    /// The background thread does not respond.
    TimedOut,
}

ferretto_wire::error_text! {
    StartupError {
        Self::NotInitialised => "tracing has not been initialised",
        Self::InProcess => "the tracing service of the process needs no startup tracing",
        Self::NothingToRecord => "no data source of this process can record that",
        Self::TimedOut => "the tracing thread is held up",
    }
}

impl StartupTracingOptions {
    /// Creates options that record the data sources of `config` in this process. A recording adopts
    /// them if its data source configs are the same, except for fields that only services set; for
    /// track events, if the selected categories and tags are the same.
    pub fn new(config: TraceConfig) -> Self {
        Self {
            config,
            backend: BackendKind::System,
            timeout: Some(USUAL_TIMEOUT),
            on_adopted: None,
            on_aborted: None,
        }
    }

    /// Sets the kind of service that the recording is expected from; by default the machine's.
    #[must_use]
    pub fn backend(mut self, backend: BackendKind) -> Self {
        self.backend = backend;
        self
    }

    /// Sets how long to wait for the recording: ten seconds by default, for ever with `None`. The
    /// memory is not read meanwhile.
    #[must_use]
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls `callback` on the background thread when recordings have adopted all data sources.
    #[must_use]
    pub fn on_adopted(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.on_adopted = Some(Box::new(callback));
        self
    }

    /// Calls `callback` on the background thread when data sources have been stopped because no
    /// recording adopted them in time, because of [`StartupTracing::abort`], or because the
    /// connection was lost.
    #[must_use]
    pub fn on_aborted(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.on_aborted = Some(Box::new(callback));
        self
    }

    /// Starts recording; when this returns, trace points record.
    ///
    /// # Errors
    ///
    /// See [`StartupError`]. No callback is called then.
    pub fn start(self) -> Result<StartupTracing, StartupError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.backend == BackendKind::InProcess {
            return Err(StartupError::InProcess);
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        let (mut on_adopted, mut on_aborted) = (self.on_adopted, self.on_aborted);
        let configs = self.config.data_sources.into_iter();
        let is_sent = engine::begin_startup(StartupRequest {
            number,
            backend: self.backend,
            configs: configs
                .map(|mut source| source.config.take().unwrap_or_default())
                .collect(),
            deadline: self.timeout.and_then(|t| Instant::now().checked_add(t)),
            observer: Box::new(move |event| match event {
                StartupEvent::SetUp(count) => drop(sender.send(count)),
                StartupEvent::Adopted => on_adopted.take().into_iter().for_each(|call| call()),
                StartupEvent::Aborted => on_aborted.take().into_iter().for_each(|call| call()),
            }),
        });
        if !is_sent {
            return Err(StartupError::NotInitialised);
        }
        match receiver.recv_timeout(USUAL_TIMEOUT) {
            Ok(0) => Err(StartupError::NothingToRecord),
            Ok(sources) => Ok(StartupTracing { number, sources }),
            Err(_) => {
                engine::abort_startup(number);
                Err(StartupError::TimedOut)
            }
        }
    }
}

impl fmt::Debug for StartupTracingOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartupTracingOptions")
            .field("backend", &self.backend)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
