//! Startup tracing: recording before a service asks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ferretto_engine::{self as engine, BackendKind, StartupEvent, StartupRequest};
use ferretto_proto::TraceConfig;

/// The time a recording is waited for, if nothing else is said.
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Recording from the first moment of a program, before a service has asked for it, or is even
/// there.
///
/// Events stay in memory of the process, and nothing of other recordings is sent either,
/// until a recording comes that asks for the same: then it is part of that. If none comes in time
/// it is thrown away.
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
/// Dropping this ends nothing.
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

    /// Ends it for those data sources that no recording has asked for yet; their packets are thrown
    /// away.
    pub fn abort(self) {
        engine::abort_startup(self.number);
    }
}

/// Options for how startup tracing is done.
pub struct StartupTracingOptions {
    config: TraceConfig,
    backend: BackendKind,
    timeout: Option<Duration>,
    on_adopted: Option<Box<dyn FnOnce() + Send>>,
    on_aborted: Option<Box<dyn FnOnce() + Send>>,
}

/// Why there is no startup tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupError {
    /// [`init`](crate::init()) was not called.
    NotInitialised,
    /// The service inside the process needs none: a recording there starts at once.
    InProcess,
    /// No data source of this process is named in the config, all have eight instances already, or
    /// the process was not set up for this service.
    NothingToRecord,
    /// The background thread is held up.
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
    /// Records what `config` asks of the data sources of this process. A recording is taken for the
    /// expected one if its data source configs are the same, apart from what only services know;
    /// for track events, if it wants the same categories and tags.
    pub fn new(config: TraceConfig) -> Self {
        Self {
            config,
            backend: BackendKind::System,
            timeout: Some(USUAL_TIMEOUT),
            on_adopted: None,
            on_aborted: None,
        }
    }

    /// Sets which service the recording is expected from; by default the machine's.
    #[must_use]
    pub fn backend(mut self, backend: BackendKind) -> Self {
        self.backend = backend;
        self
    }

    /// Sets how long to wait for the recording; by default ten seconds, with `None` for ever. The
    /// memory is not emptied meanwhile.
    #[must_use]
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls `callback` on the background thread when all data sources are part of recordings.
    #[must_use]
    pub fn on_adopted(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.on_adopted = Some(Box::new(callback));
        self
    }

    /// Calls `callback` on the background thread when data sources have been stopped because no
    /// recording came for them in time, because of [`StartupTracing::abort`], or because the
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
