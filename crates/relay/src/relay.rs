//! The event loop of a relay: accepts producers, connects each to the host, and forwards.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferretto_client::transport::WakeFd;
use ferretto_host::Termination;
use ferretto_ipc::Address;
use ferretto_ipc::frame::set_peer_identity;
use ferretto_ipc::socket::{BindError, Credentials, Listener, Socket};

use crate::dial::{Dialled, Dialler};
use crate::flow::CAPACITY;
use crate::notice::Notice;
use crate::options::RelayOptions;
use crate::own::{Change, OwnLink};
use crate::pair::{Outcome, Pair, Side};
use crate::poller::{Interest, Poller, Ready};
use crate::share::Shares;

/// Tokens of sources other than producers. Each producer has two, from twice its number on.
const LISTENER: u64 = u64::MAX;
const DIALLER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX - 2;
const SIGNAL: u64 = u64::MAX - 3;
const OWN: u64 = u64::MAX - 4;
/// The number of the relay's own connection. Producers have higher numbers.
const OWN_NUMBER: u64 = 0;
/// The largest number of producers accepted in a turn.
const ACCEPT_PER_TURN: usize = 64;
/// The pause after accepting failed because descriptors ran out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// The longest time that stopping waits for undelivered bytes.
const DRAIN: Duration = Duration::from_secs(2);

/// The reason why a relay cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Listening at the address for producers failed.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The passed sockets cannot be used.
    #[error(transparent)]
    Inherited(#[from] ferretto_host::InheritedError),
    /// Another system call failed.
    #[error("cannot run the relay: {0}")]
    Io(#[from] io::Error),
}

/// A producer that waits for its connection to the host.
#[derive(Debug)]
struct Newcomer {
    socket: Socket,
    credentials: Credentials,
}

#[derive(Debug)]
struct Producer {
    pair: Pair,
    user: u32,
    pid: i32,
}

/// A relay on real sockets.
#[derive(Debug)]
pub struct Relay {
    options: RelayOptions,
    listener: Listener,
    poller: Poller,
    dialler: Dialler,
    own: OwnLink,
    shares: Shares,
    last_number: u64,
    newcomers: HashMap<u64, Newcomer>,
    producers: HashMap<u64, Producer>,
    /// The time at which accepting resumes.
    accept_again: Option<Instant>,
    stop: Arc<Stop>,
    termination: Option<Termination>,
    buffer: Vec<u8>,
    last_reason: Option<String>,
}

#[derive(Debug)]
struct Stop {
    requested: AtomicBool,
    wake: WakeFd,
}

/// Stops a relay from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    /// Stops the relay. [`Relay::run`] delivers the bytes of producers and returns.
    pub fn stop(&self) {
        self.0.requested.store(true, Ordering::Release);
        self.0.wake.wake();
    }
}

impl Relay {
    /// Listens for producers. They can connect as soon as this returns, and are served once
    /// [`run`](Self::run) is called. The host may be absent.
    ///
    /// # Errors
    ///
    /// See [`RelayError`]. A failure leaves no socket file.
    pub fn bind(options: RelayOptions) -> Result<Self, RelayError> {
        let permissions = options.permissions.clone();
        let apply = || match (&permissions, &options.listen) {
            (Some(permissions), Address::Path(path)) => permissions.apply(path),
            (Some(_), _) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "not a socket file",
            )),
            (None, _) => Ok(()),
        };
        let listener = Listener::bind_prepared(&options.listen, apply)?;
        Self::with_listener(options, listener)
    }

    /// Like [`bind`](Self::bind), with a socket that another process has bound.
    ///
    /// # Errors
    ///
    /// See [`RelayError`].
    pub(crate) fn with_listener(
        options: RelayOptions,
        listener: Listener,
    ) -> Result<Self, RelayError> {
        let poller = Poller::new()?;
        let dialler = Dialler::new(options.host.clone(), options.security.clone())?;
        let stop = Arc::new(Stop {
            requested: AtomicBool::new(false),
            wake: WakeFd::new()?,
        });
        let read = Interest {
            read: true,
            write: false,
        };
        poller.add(listener.as_fd(), LISTENER, read)?;
        poller.add(dialler.fd(), DIALLER, read)?;
        poller.add(stop.wake.as_fd(), WAKE, read)?;
        Ok(Self {
            options,
            listener,
            poller,
            dialler,
            own: OwnLink::default(),
            shares: Shares::new(),
            last_number: OWN_NUMBER,
            newcomers: HashMap::new(),
            producers: HashMap::new(),
            accept_again: None,
            stop,
            termination: None,
            buffer: vec![0; CAPACITY],
            last_reason: None,
        })
    }

    /// Returns a handle that stops this relay.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Returns the address at which producers connect.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Also stops at these signals.
    pub(crate) fn stop_at(&mut self, termination: Termination) -> io::Result<()> {
        let read = Interest {
            read: true,
            write: false,
        };
        self.poller.add(termination.as_fd(), SIGNAL, read)?;
        self.termination = Some(termination);
        Ok(())
    }

    /// Forwards until stopped.
    ///
    /// # Errors
    ///
    /// Fails if polling fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut signalled = false;
        while !signalled && !self.stop.requested.load(Ordering::Acquire) {
            let now = Instant::now();
            if self.own.wants_dial(now) {
                self.dialler.dial(OWN_NUMBER);
            }
            let ready = self.poller.wait(self.deadline())?;
            let now = Instant::now();
            for event in ready {
                match event.token {
                    LISTENER => self.accept(now),
                    DIALLER => self.take_dialled(now),
                    SIGNAL => signalled = true,
                    WAKE | OWN => {}
                    _ => self.serve(event, now),
                }
            }
            self.after_turn(now);
        }
        self.drain()
    }

    fn deadline(&self) -> Option<Instant> {
        let pairs = self.producers.values().filter_map(|p| p.pair.deadline());
        let others = [self.own.deadline(), self.accept_again];
        pairs.chain(others.into_iter().flatten()).min()
    }

    fn after_turn(&mut self, now: Instant) {
        match self.own.process((&self.poller, OWN), now) {
            Some(Change::Connected) => {
                self.last_reason = None;
                let host = self.options.host.clone();
                self.options.notices.report(&Notice::Connected(host));
            }
            Some(Change::Lost(reason)) => self.host_is_gone(reason),
            None => {}
        }
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            let read = Interest {
                read: true,
                write: false,
            };
            let _ = self.poller.change(self.listener.as_fd(), LISTENER, read);
        }
        let due = self.producers.iter();
        let due = due.filter(|(_, p)| p.pair.deadline().is_some_and(|at| at <= now));
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            self.turn(number, now);
        }
    }

    /// Reports why the host is unreachable, unless the last notice was the same.
    fn host_is_gone(&mut self, reason: String) {
        if self.last_reason.as_ref() != Some(&reason) {
            self.last_reason = Some(reason.clone());
            self.options.notices.report(&Notice::Disconnected(reason));
        }
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPT_PER_TURN {
            match self.listener.accept() {
                Ok(Some(socket)) => self.welcome(socket),
                Ok(None) => return,
                Err(error) => {
                    self.accept_again = Some(now + ACCEPT_RETRY);
                    let nothing = Interest::default();
                    let _ = self.poller.change(self.listener.as_fd(), LISTENER, nothing);
                    self.options.notices.report(&Notice::AcceptFailed(error));
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, socket: Socket) {
        let credentials = socket.credentials().unwrap_or(Credentials {
            uid: u32::MAX,
            pid: -1,
        });
        if !self.shares.take(credentials.uid) {
            let user = credentials.uid;
            self.options.notices.report(&Notice::TooMany(user));
            return;
        }
        self.last_number += 1;
        let newcomer = Newcomer {
            socket,
            credentials,
        };
        self.newcomers.insert(self.last_number, newcomer);
        self.dialler.dial(self.last_number);
        self.own.hurry();
    }

    fn take_dialled(&mut self, now: Instant) {
        self.dialler.woke();
        while let Some(Dialled { number, result }) = self.dialler.next() {
            let socket = match result {
                Ok(socket) => socket,
                Err(error) => {
                    if number == OWN_NUMBER {
                        self.own.failed(now);
                        self.host_is_gone(error.to_string());
                    } else if let Some(newcomer) = self.newcomers.remove(&number) {
                        // The producer reconnects by itself.
                        self.shares.give_back(newcomer.credentials.uid);
                    }
                    continue;
                }
            };
            if number == OWN_NUMBER {
                let machine = &self.options.machine;
                self.own
                    .connected(socket, machine, (&self.poller, OWN), now);
            } else if let Some(newcomer) = self.newcomers.remove(&number) {
                self.join(number, newcomer, socket, now);
            }
        }
    }

    fn join(&mut self, number: u64, newcomer: Newcomer, host: Socket, now: Instant) {
        let Credentials { uid: user, pid } = newcomer.credentials;
        let first = set_peer_identity(&self.options.machine.identity(pid, user));
        let pair = Pair::new(
            (Box::new(newcomer.socket), 2 * number),
            (Box::new(host), 2 * number + 1),
            first,
        );
        self.producers.insert(number, Producer { pair, user, pid });
        self.turn(number, now);
    }

    fn serve(&mut self, event: Ready, now: Instant) {
        let (number, side) = match event.token % 2 {
            0 => (event.token / 2, Side::Local),
            _ => (event.token / 2, Side::Remote),
        };
        self.turn(number, now);
        if event.is_over
            && let Some(producer) = self.producers.get_mut(&number)
        {
            producer.pair.is_over(&self.poller, side);
        }
    }

    fn turn(&mut self, number: u64, now: Instant) {
        let Some(producer) = self.producers.get_mut(&number) else {
            return;
        };
        let outcome = producer.pair.turn(&self.poller, now, &mut self.buffer);
        if let Outcome::Goes = outcome {
            return;
        }
        if let Outcome::Failed(side, error) = outcome {
            let notice = Notice::failed(side, (producer.user, producer.pid), error);
            self.options.notices.report(&notice);
        }
        producer.pair.unwatch(&self.poller);
        self.shares.give_back(producer.user);
        self.producers.remove(&number);
    }

    /// Delivers the bytes of producers that the host takes within [`DRAIN`].
    fn drain(mut self) -> io::Result<()> {
        let end = Instant::now() + DRAIN;
        self.poller.remove(self.listener.as_fd());
        self.poller.remove(self.stop.wake.as_fd());
        self.poller.remove(self.dialler.fd());
        if let Some(termination) = &self.termination {
            self.poller.remove(termination.as_fd());
        }
        drop(std::mem::take(&mut self.own));
        let numbers: Vec<u64> = self.producers.keys().copied().collect();
        for number in numbers {
            self.turn(number, Instant::now());
            if let Some(producer) = self.producers.get_mut(&number) {
                producer.pair.end();
            }
            self.turn(number, Instant::now());
        }
        while !self.producers.is_empty() && Instant::now() < end {
            let ready = self.poller.wait(Some(end))?;
            for event in ready {
                self.serve(event, Instant::now());
            }
        }
        Ok(())
    }
}
