//! The common part of daemons with data sources: they connect, report the result, handle the
//! requests of the service, and run until stopped.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_proto::DataSourceDescriptor;

use crate::options::ProducerOptions;
use crate::producer::{Event, Producer, ProducerHandle};

/// A notice for the program that runs the data sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The service accepted the producer. Recordings can use its data sources.
    Connected,
    /// The service is missing or gone. The daemon reconnects.
    Disconnected(String),
    /// An instance of a data source has started recording.
    Started {
        /// The name of the data source.
        source: String,
    },
    /// An instance of a data source records less than requested.
    Remark {
        /// The name of the data source.
        source: String,
        /// The missing data, and a remedy.
        text: String,
    },
    /// An instance of a data source did not start, or not fully. The recording continues without
    /// it.
    Failed {
        /// The name of the data source.
        source: String,
        /// The reason, and a remedy.
        reason: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected to the tracing service"),
            Self::Disconnected(reason) => write!(f, "no tracing service: {reason}"),
            Self::Started { source } => write!(f, "{source}: started"),
            Self::Remark { source, text } => write!(f, "{source}: {text}"),
            Self::Failed { source, reason } => write!(f, "{source}: {reason}"),
        }
    }
}

/// Called with each [`Notice`], on a thread of the data sources.
pub type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;

/// The connection of data sources, and the receiver of notices.
#[derive(Clone, Default)]
pub struct DaemonOptions {
    /// The producer socket of the service; `None` for the one in the environment, or the default.
    pub address: Option<Address>,
    /// Users whose services are trusted with the recorded data, besides those that
    /// [`AtAddress`](crate::transport::AtAddress) trusts by default.
    pub trusted_users: Vec<u32>,
    /// Receives notices; `None` to ignore them.
    pub on_notice: Option<NoticeHandler>,
    /// Called on each connection when the service has processed the registration of every data
    /// source.
    pub on_ready: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for DaemonOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonOptions")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl DaemonOptions {
    /// Passes a notice to the handler, if there is one.
    pub fn notify(&self, notice: Notice) {
        if let Some(handler) = &self.on_notice {
            handler(&notice);
        }
    }
}

/// Stops the data sources from any thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    handle: ProducerHandle,
}

impl Stopper {
    /// Makes [`Daemon::turn`] return `None` soon, after recorded data is sent.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.handle.wake();
    }
}

/// A producer of the data sources of a daemon.
///
/// Its thread repeats [turns](Self::turn) until they end, handles the events of each and other due
/// work, and [waits](Self::wait).
#[derive(Debug)]
pub struct Daemon {
    producer: Producer,
    handle: ProducerHandle,
    stop: Arc<AtomicBool>,
    options: DaemonOptions,
}

impl Daemon {
    /// Creates the producer of these data sources. It connects to the address in `options` with the
    /// first [`turn`](Self::turn).
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new(
        options: DaemonOptions,
        producer: ProducerOptions,
        sources: Vec<DataSourceDescriptor>,
    ) -> io::Result<Self> {
        let mut producer = Producer::new(ProducerOptions {
            address: options.address.clone(),
            trusted_users: options.trusted_users.clone(),
            ..producer
        })?;
        for source in sources {
            producer.register(source);
        }
        Ok(Self {
            handle: producer.handle(),
            producer,
            stop: Arc::default(),
            options,
        })
    }

    /// Returns the handle of the producer for any thread.
    pub fn handle(&self) -> &ProducerHandle {
        &self.handle
    }

    /// Returns a handle that stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            stop: Arc::clone(&self.stop),
            handle: self.handle.clone(),
        }
    }

    /// Passes a notice to the program that runs the data sources.
    pub fn notify(&self, notice: Notice) {
        self.options.notify(notice);
    }

    /// Exchanges messages with the service without blocking, and returns its requests in order.
    /// Returns `None` once stopped.
    pub fn turn(&mut self) -> Option<Vec<Event>> {
        self.producer.process(Instant::now());
        // `process` clears the wake-up, so the flag must be read after it.
        if self.stop.load(Ordering::Acquire) {
            return None;
        }
        let mut events = Vec::new();
        while let Some(event) = self.producer.poll_event() {
            self.observe(&event);
            events.push(event);
        }
        Some(events)
    }

    fn observe(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.notify(Notice::Connected);
                if let Some(ready) = self.options.on_ready.clone() {
                    self.handle.sync(move || ready());
                }
            }
            Event::Disconnected(reason) => self.notify(Notice::Disconnected(reason.to_string())),
            _ => {}
        }
    }

    /// Waits until another turn is due, one of `others` is readable or failed, or `limit` has
    /// passed.
    pub fn wait(&self, others: &[BorrowedFd<'_>], limit: Option<Duration>) {
        self.producer.wait_also_for(others, limit);
    }
}
