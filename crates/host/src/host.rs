//! The host: binds sockets, runs and stops.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferretto_ipc::Address;
use ferretto_ipc::socket::{BindError, Listener};
use ferretto_service::Service;
use ferretto_service::driver::{Alarm, Files, clocks};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::client::Role;
use crate::heartbeat::Heartbeat;
use crate::inherited::{InheritedError, InheritedSockets};
use crate::options::{HostOptions, RelayEndpoints};
use crate::permissions::FilePermissions;
use crate::reactor::{ListenerState, Reactor};
use crate::termination::Termination;
use crate::watchdog::WatchdogError;

/// Tokens of event sources other than clients; those of clients are their ids, which start at 1.
const WAKE: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const SIGNAL: Token = Token(usize::MAX - 2);
const LISTENERS: usize = usize::MAX / 2;
/// The number of events taken at a time. They are in the order of their arrival, and a user is only
/// served before others once an event shows that there are bytes to read. With a small number,
/// thousands of events of another user would come first.
const EVENTS: usize = 4096;

/// The reason why a host could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no producer address.
    #[error("no producer socket name was given")]
    NoProducerAddress,
    /// The relay address is not one of the producer addresses.
    #[error("{address} is none of the producer sockets ({producers})")]
    NoRelayAddress {
        /// The relay address.
        address: Address,
        /// The producer addresses, separated by commas.
        producers: String,
    },
    /// Listening failed.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Group or mode of a socket could not be set.
    #[error("cannot set the permissions of {address}: {source}")]
    Permissions {
        /// The address of the socket.
        address: Address,
        /// The reason.
        source: io::Error,
    },
    /// Inherited sockets cannot be used.
    #[error(transparent)]
    Inherited(#[from] InheritedError),
    /// The service exceeded the limits of its watchdog.
    #[error(transparent)]
    Watchdog(#[from] WatchdogError),
    /// Another system error.
    #[error("cannot start the tracing service: {0}")]
    Io(#[from] io::Error),
}

/// A tracing service on real sockets.
///
/// ```no_run
/// use ferretto_host::{Host, HostOptions};
///
/// let host = Host::bind(HostOptions::from_environment()?)?;
/// let stopper = host.stopper();
/// let thread = std::thread::spawn(move || host.run());
/// // Clients can connect from here on.
/// stopper.stop();
/// thread.join().expect("the host does not panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Host {
    poll: Poll,
    reactor: Reactor,
    stop: Arc<Stop>,
    termination: Option<Termination>,
}

#[derive(Debug)]
struct Stop {
    requested: AtomicBool,
    waker: Arc<Waker>,
}

/// Stops a host from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    /// Asks the host to end. [`Host::run`] returns soon after.
    pub fn stop(&self) {
        self.0.requested.store(true, Ordering::Release);
        // This fails only if the host is already gone.
        let _ = self.0.waker.wake();
    }
}

impl Host {
    /// Listens. Clients can connect as soon as this returns, and are served once [`run`](Self::run)
    /// is called.
    ///
    /// # Errors
    ///
    /// See [`HostError`]. After an error, no socket is left.
    pub fn bind(options: HostOptions) -> Result<Self, HostError> {
        Self::with_sockets(options, InheritedSockets::default())
    }

    /// Like [`bind`](Self::bind), but uses these sockets instead of the addresses for clients of
    /// their kind. Their permissions are not changed.
    ///
    /// # Errors
    ///
    /// See [`HostError`]. After an error, no socket is left.
    pub(crate) fn with_sockets(
        mut options: HostOptions,
        sockets: InheritedSockets,
    ) -> Result<Self, HostError> {
        if !sockets.producers.is_empty() {
            let addresses = sockets.producers.iter().map(Listener::address);
            options.producers = addresses.cloned().collect();
        }
        if options.producers.is_empty() {
            return Err(HostError::NoProducerAddress);
        }
        check_relays(&options)?;
        let poll = Poll::new()?;
        let producers = match sockets.producers {
            inherited if !inherited.is_empty() => inherited,
            _ => listen_for_producers(&options)?,
        };
        let consumer = match sockets.consumer {
            Some(inherited) => inherited,
            None => listen_for_consumers(&options)?,
        };
        let mut listeners = Vec::new();
        for listener in producers {
            let relays = options.relays.include(listener.address());
            listeners.push(ListenerState::new(listener, Role::Producer { relays }));
        }
        listeners.push(ListenerState::new(consumer, Role::Consumer));
        for (index, listener) in listeners.iter().enumerate() {
            register(&poll, listener.raw_fd(), Token(LISTENERS + index))?;
        }
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let timer = Alarm::new()?;
        register(&poll, timer.as_fd().as_raw_fd(), TIMER)?;
        let stop = Stop {
            requested: AtomicBool::new(false),
            waker: Arc::clone(&waker),
        };
        let wake = move || {
            // This fails only if the reactor is already gone.
            let _ = waker.wake();
        };
        let requires_identity = options.requires_identity();
        let mut reactor = Reactor::new(
            poll.registry().try_clone()?,
            listeners,
            Service::new(options.service),
            Files::new(wake, options.limits.file_patience),
            timer,
            options.limits,
            options.notices,
        );
        reactor.only_user = options.only_user;
        reactor.requires_identity = requires_identity;
        reactor.security = options.security;
        reactor.remotes.allow(options.allowed_hosts);
        if let Some(limits) = options.watchdog {
            reactor.watch(limits);
        }
        Ok(Self {
            poll,
            reactor,
            stop: Arc::new(stop),
            termination: None,
        })
    }

    /// Returns a value that stops this host.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Returns the addresses at which producers connect.
    pub fn producer_addresses(&self) -> impl Iterator<Item = &Address> {
        self.reactor.addresses(|role| role != Role::Consumer)
    }

    /// Returns the address at which consumers connect.
    pub fn consumer_address(&self) -> Option<&Address> {
        self.reactor.addresses(|role| role == Role::Consumer).next()
    }

    /// Returns the TCP port of the first producer socket that has one, for addresses that let the
    /// system choose it.
    pub fn producer_port(&self) -> Option<u16> {
        self.reactor.producer_port()
    }

    /// Also stops at these signals.
    pub(crate) fn stop_at(&mut self, termination: Termination) -> io::Result<()> {
        register(&self.poll, termination.as_fd().as_raw_fd(), SIGNAL)?;
        self.termination = Some(termination);
        Ok(())
    }

    /// Serves clients until stopped. Then closes all connections, completes files and removes
    /// socket files.
    ///
    /// # Errors
    ///
    /// Fails if the system's event queue fails, or if the service exceeds the limits of its
    /// watchdog (the error then contains a [`WatchdogError`](crate::WatchdogError)). Both end the
    /// service.
    pub fn run(self) -> io::Result<()> {
        self.run_until(|| ())
    }

    /// Like [`run`](Self::run), but calls `stopped` when it starts to end.
    pub(crate) fn run_until(mut self, stopped: impl FnOnce()) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut stopping = false;
        while !stopping && !self.stop.requested.load(Ordering::Acquire) {
            let busy = self.reactor.prepare_to_wait()?;
            match self.poll.poll(&mut events, busy.then_some(Duration::ZERO)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            for event in &events {
                match event.token() {
                    WAKE => {}
                    TIMER => self.reactor.timer_rang(),
                    SIGNAL => stopping = true,
                    Token(index) if index >= LISTENERS => {
                        self.reactor.listener_ready(index - LISTENERS);
                    }
                    Token(client) => {
                        let closed = event.is_read_closed() || event.is_error();
                        self.reactor.client_ready(client as u64, closed);
                    }
                }
            }
            let begin = clocks::monotonic();
            let heartbeat = self.reactor.heartbeat.iter();
            heartbeat.for_each(|heartbeat| heartbeat.begin_turn(begin));
            let end = self.reactor.turn(begin);
            self.reactor.heartbeat.iter().for_each(Heartbeat::end_turn);
            if let Err(error) = self.reactor.check_usage(end) {
                stopped();
                self.reactor.finish();
                return Err(io::Error::other(error));
            }
        }
        stopped();
        self.reactor.finish();
        Ok(())
    }
}

fn check_relays(options: &HostOptions) -> Result<(), HostError> {
    let RelayEndpoints::At(wanted) = &options.relays else {
        return Ok(());
    };
    let unknown = wanted
        .iter()
        .find(|address| !options.producers.contains(address));
    match unknown {
        Some(address) => Err(HostError::NoRelayAddress {
            address: address.clone(),
            producers: list(&options.producers),
        }),
        None => Ok(()),
    }
}

fn list(addresses: &[Address]) -> String {
    let texts: Vec<String> = addresses.iter().map(Address::to_string).collect();
    texts.join(",")
}

fn listen_for_producers(options: &HostOptions) -> Result<Vec<Listener>, HostError> {
    let permissions = options.permissions.as_ref().map(|both| &both.producer);
    let listen = |address: &Address| {
        // As in upstream, sockets for producers on other machines have no file.
        let has_file = !matches!(address, Address::Tcp { .. } | Address::Vsock { .. });
        listen(address, permissions.filter(|_| has_file))
    };
    options.producers.iter().map(listen).collect()
}

fn listen_for_consumers(options: &HostOptions) -> Result<Listener, HostError> {
    let permissions = options.permissions.as_ref().map(|both| &both.consumer);
    listen(&options.consumer, permissions)
}

/// Listens. Clients cannot connect before the permissions are set.
fn listen(address: &Address, permissions: Option<&FilePermissions>) -> Result<Listener, HostError> {
    let Some(permissions) = permissions else {
        return Ok(Listener::bind(address)?);
    };
    let apply = || match address {
        Address::Path(path) => permissions.apply(path),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "it is not a file",
        )),
    };
    Listener::bind_prepared(address, apply).map_err(|error| match error {
        BindError::Prepare { address, source } => HostError::Permissions { address, source },
        other => HostError::Bind(other),
    })
}

fn register(poll: &Poll, fd: std::os::fd::RawFd, token: Token) -> io::Result<()> {
    poll.registry()
        .register(&mut SourceFd(&fd), token, Interest::READABLE)
}
