//! One turn of the loop: who may connect, read, be told and be sent what.
//!
//! Each turn does a bounded amount of work for each client that has some to
//! do, and nothing for the others. A client that keeps the service busy thus
//! waits for its next turn like everyone else.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::host::{Action, Incoming, Peer, Request};
use ferretto_ipc::port::PortKind;
use ferretto_ipc::socket::{Listener, RECEIVE_BUFFER_SIZE, Received};
use ferretto_priority::ThreadBoost;
use ferretto_service::driver::{Alarm, Files, clocks};
use ferretto_service::{ClientId, Clocks, Event, Service};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::admission::Admission;
use crate::client::{Client, Role};
use crate::heartbeat::Heartbeat;
use crate::notice::{Notice, NoticeSink};
use crate::options::Limits;
use crate::watchdog::{self, RunWild, Usage, Watchdog, WatchdogLimits};

/// How many bytes are read from one client in a turn.
const READ_PER_TURN: usize = 32 * 1024;
/// How many bytes are read from a consumer before its answers are looked at:
/// a short request can have a long answer.
const CONSUMER_READ: usize = 4 * 1024;
/// What a connection takes besides what is held for it.
const PER_CLIENT: u64 = 8 * 1024;
/// For how many calls memory is kept from one receive to the next.
const KEPT_ACTIONS: usize = 256;
/// How many connections one socket accepts in a turn.
const ACCEPT_PER_TURN: usize = 64;
/// How long to wait after accepting failed for want of descriptors.
const ACCEPT_RETRY: u64 = 100_000_000;
/// How long the end waits for files that are still being written.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// A listening socket.
#[derive(Debug)]
pub(crate) struct ListenerState {
    listener: Listener,
    role: Role,
    services: Arc<[PortKind]>,
    /// Whether someone may be waiting.
    ready: bool,
}

impl ListenerState {
    pub(crate) fn new(listener: Listener, role: Role) -> Self {
        Self {
            listener,
            role,
            services: role.services(),
            ready: true,
        }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.listener.as_fd().as_raw_fd()
    }
}

/// Everything between the event queue and the service.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub(crate) registry: Registry,
    listeners: Vec<ListenerState>,
    pub(crate) service: Service,
    pub(crate) files: Files,
    timer: Alarm,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) notices: NoticeSink,
    pub(crate) boost: ThreadBoost,
    watchdog: Option<Watchdog>,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) clients: HashMap<ClientId, Client>,
    next_client: u64,
    /// Clients with something to read, in the order of their turns.
    readers: VecDeque<ClientId>,
    /// Clients with something new to send.
    pub(crate) dirty: BTreeSet<ClientId>,
    /// Clients whose socket took no more.
    pub(crate) unsent: BTreeSet<ClientId>,
    /// Clients that are gone but of which the service was not told yet.
    gone: Vec<ClientId>,
    accept_again: Option<u64>,
    buffer: Vec<u8>,
    actions: Vec<(Option<Peer>, Action)>,
}

impl Reactor {
    pub(crate) fn new(
        registry: Registry,
        listeners: Vec<ListenerState>,
        service: Service,
        files: Files,
        timer: Alarm,
        limits: Limits,
        notices: NoticeSink,
    ) -> Self {
        Self {
            registry,
            listeners,
            service,
            files,
            timer,
            admission: Admission::new(&limits),
            limits,
            notices,
            boost: ThreadBoost::new(),
            watchdog: None,
            heartbeat: None,
            clients: HashMap::new(),
            next_client: 1,
            readers: VecDeque::new(),
            dirty: BTreeSet::new(),
            unsent: BTreeSet::new(),
            gone: Vec::new(),
            accept_again: None,
            buffer: vec![0; RECEIVE_BUFFER_SIZE.min(READ_PER_TURN)],
            actions: Vec::new(),
        }
    }

    /// Where clients of these roles connect.
    pub(crate) fn addresses(
        &self,
        wanted: impl Fn(Role) -> bool,
    ) -> impl Iterator<Item = &Address> {
        let listeners = self
            .listeners
            .iter()
            .filter(move |state| wanted(state.role));
        listeners.map(|state| state.listener.address())
    }

    pub(crate) fn producer_port(&self) -> Option<u16> {
        let producers = self
            .listeners
            .iter()
            .filter(|state| state.role != Role::Consumer);
        producers
            .filter_map(|state| state.listener.local_port())
            .next()
    }

    pub(crate) fn listener_ready(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.ready = true;
        }
    }

    pub(crate) fn client_ready(&mut self, id: u64, peer_closed: bool) {
        let id = ClientId(id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.peer_closed |= peer_closed;
            client.readable = true;
            if client.waits_for_room {
                self.dirty.insert(id);
            }
            self.line_up(id);
        }
    }

    /// Has a client read from in the next turn.
    pub(crate) fn line_up(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id)
            && !std::mem::replace(&mut client.in_turn, true)
        {
            self.readers.push_back(id);
        }
    }

    pub(crate) fn timer_rang(&mut self) {
        self.timer.rang();
    }

    /// Sets the alarm for the next deadline. Returns whether there is work to
    /// do at once.
    pub(crate) fn prepare_to_wait(&mut self) -> io::Result<bool> {
        let can_accept =
            self.accept_again.is_none() && self.listeners.iter().any(|state| state.ready);
        if can_accept || !self.readers.is_empty() || !self.dirty.is_empty() {
            return Ok(true);
        }
        let stall = self.next_stall();
        let deadlines = [self.service.poll_timeout(), self.accept_again, stall];
        self.timer.set(deadlines.into_iter().flatten().min())?;
        Ok(false)
    }

    /// Does what there is to do, a bounded amount for each client.
    pub(crate) fn turn(&mut self) {
        self.accept();
        while let Some(event) = self.files.next_event() {
            self.tell(&clocks::read(), event);
        }
        for _ in 0..self.readers.len() {
            let Some(id) = self.readers.pop_front() else {
                break;
            };
            if let Some(client) = self.clients.get_mut(&id) {
                client.in_turn = false;
                self.read(id);
            }
        }
        if self
            .service
            .poll_timeout()
            .is_some_and(|at| at <= clocks::boottime())
        {
            let now = clocks::read();
            self.service.handle_timeout(&now);
            self.carry_out(&now);
        }
        for id in std::mem::take(&mut self.dirty) {
            self.flush(id);
        }
        self.drop_stalled();
        if !self.gone.is_empty() {
            self.carry_out(&clocks::read());
        }
    }

    /// Ends the host when the process exceeds these limits.
    pub(crate) fn watch(&mut self, limits: WatchdogLimits) {
        let seconds = limits.turn / 1_000_000_000;
        let notices = self.notices.clone();
        self.heartbeat = Heartbeat::new(limits.turn, move || {
            notices.report(&Notice::Hangs { seconds });
            std::process::abort();
        });
        self.watchdog = Some(Watchdog::new(limits));
    }

    /// Whether the process stays within its limits, now and then.
    pub(crate) fn check_usage(&mut self) -> Result<(), RunWild> {
        let Some(watchdog) = &mut self.watchdog else {
            return Ok(());
        };
        let now = clocks::monotonic();
        if !watchdog.is_due(now) {
            return Ok(());
        }
        let held: usize = self.clients.values().map(|c| c.accounted).sum();
        let explained = self.service.memory_needed()
            + self.files.memory_needed()
            + held as u64
            + self.clients.len() as u64 * PER_CLIENT;
        watchdog.check(Usage {
            explained,
            ..watchdog::usage(now)
        })
    }

    /// Closes every connection and completes the files.
    pub(crate) fn finish(mut self) {
        self.listeners.clear();
        let mut clients: Vec<ClientId> = self.clients.keys().copied().collect();
        clients.sort_unstable();
        for id in clients {
            self.lose(id);
        }
        self.carry_out(&clocks::read());
        self.files.hurry();
        let deadline = Instant::now() + FINISH_TIMEOUT;
        while let Some(event) = self.files.wait_for_event(deadline) {
            self.tell(&clocks::read(), event);
        }
        self.files.finish(deadline);
    }

    fn accept(&mut self) {
        if self.accept_again.is_some_and(|at| clocks::boottime() < at) {
            return;
        }
        self.accept_again = None;
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPT_PER_TURN {
                let state = &mut self.listeners[index];
                if !state.ready {
                    break;
                }
                match state.listener.accept() {
                    Ok(None) => state.ready = false,
                    Ok(Some(socket)) => {
                        let id = ClientId(self.next_client);
                        self.next_client += 1;
                        let services = Arc::clone(&state.services);
                        let client = Client::new(id, state.role, services, socket, &self.limits);
                        if let Some(client) = client {
                            self.add(client);
                        }
                    }
                    Err(error) => {
                        self.accept_again = Some(clocks::boottime() + ACCEPT_RETRY);
                        self.notices.report(&Notice::AcceptFailed(error));
                        return;
                    }
                }
            }
        }
    }

    fn add(&mut self, client: Client) {
        if !self.admit(client.origin) {
            return;
        }
        let token = Token(client.id.0 as usize);
        let fd = client.raw_fd();
        match self
            .registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
        {
            Ok(()) => {
                let id = client.id;
                self.clients.insert(id, client);
                self.line_up(id);
            }
            Err(error) => {
                self.release(client.origin, 0);
                self.notices.report(&Notice::AcceptFailed(error));
            }
        }
    }

    /// Reads from a client and passes on what it asks for.
    fn read(&mut self, id: ClientId) {
        let mut total = 0;
        while total < READ_PER_TURN {
            let Some(client) = self.clients.get_mut(&id) else {
                return;
            };
            if !client.may_read(&self.limits) {
                // `flush` resumes it.
                return;
            }
            let size = match client.role {
                Role::Producer { .. } => self.buffer.len(),
                Role::Consumer => CONSUMER_READ,
            };
            match client.socket.receive(&mut self.buffer[..size]) {
                Ok(Received::Data { len, fd }) => {
                    total += len;
                    // Less than there was room for: there is no more, and what comes is announced. A
                    // receive also ends behind a descriptor, and the end of the stream comes by itself.
                    if len < size && fd.is_none() && !client.peer_closed {
                        client.readable = false;
                        return self.receive(id, len, fd);
                    }
                    self.receive(id, len, fd);
                }
                Ok(Received::WouldBlock) => {
                    client.readable = false;
                    return;
                }
                Ok(Received::Closed) => return self.lose(id),
                Err(error) => {
                    let client = client.name();
                    self.notices
                        .report(&Notice::ReceiveFailed { client, error });
                    return self.lose(id);
                }
            }
        }
        self.line_up(id);
    }

    /// Takes `len` bytes in the buffer, received from a client.
    fn receive(&mut self, id: ClientId, len: usize, fd: Option<OwnedFd>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let mut actions = std::mem::take(&mut self.actions);
        let mut announced = client.announced;
        let received = client
            .connection
            .receive(&self.buffer[..len], fd, |peer, action| {
                let first_call = !announced && matches!(action, Action::Invoke(_));
                announced |= first_call;
                actions.push((first_call.then(|| peer.clone()), action));
            });
        if let Err(error) = received {
            let client = client.name();
            self.notices.report(&Notice::BadFrame { client, error });
            return self.lose(id);
        }
        let now = clocks::read();
        for (newcomer, action) in actions.drain(..) {
            // An earlier action may have cost the client its connection.
            if self.clients.get(&id).is_none_or(|client| client.closing) {
                break;
            }
            self.act(&now, id, newcomer, action);
        }
        self.account(id);
        actions.clear();
        actions.shrink_to(KEPT_ACTIONS);
        self.actions = actions;
    }

    fn act(&mut self, now: &Clocks, id: ClientId, newcomer: Option<Peer>, action: Action) {
        match action {
            Action::Send(frame) => self.send(id, frame, None),
            Action::Invoke(incoming) => {
                if let (Some(peer), Some(client)) = (newcomer, self.clients.get_mut(&id)) {
                    client.announced = true;
                    let event = client.announcement(&peer);
                    self.tell(now, event);
                }
                self.tell(now, request_event(id, incoming));
            }
        }
    }

    /// Passes an event to the service and carries out what follows.
    pub(crate) fn tell(&mut self, now: &Clocks, event: Event) {
        self.service.handle(now, event);
        self.carry_out(now);
    }

    /// Ends a connection now. The service is told by [`carry_out`](Self::carry_out), which
    /// every turn ends with.
    pub(crate) fn lose(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        self.unsent.remove(&id);
        self.dirty.remove(&id);
        self.release(client.origin, client.accounted);
        // Closing the socket would do as well.
        let _ = self.registry.deregister(&mut SourceFd(&client.raw_fd()));
        if client.announced {
            self.gone.push(id);
        }
        // There may be a descriptor to accept with now.
        self.accept_again = None;
    }

    /// A client that is gone and of which the service must be told.
    pub(crate) fn next_gone(&mut self) -> Option<ClientId> {
        self.gone.pop()
    }
}

/// The event for a call.
fn request_event(client: ClientId, incoming: Incoming) -> Event {
    let Incoming {
        request_id,
        drop_reply,
        request,
        fd,
    } = incoming;
    let request_id = (!drop_reply).then_some(request_id);
    match request {
        Request::Producer(request) => Event::ProducerRequest {
            client,
            request_id,
            request,
            fd,
        },
        Request::Consumer(request) => Event::ConsumerRequest {
            client,
            request_id,
            request: *request,
            fd,
        },
        Request::Relay(request) => Event::RelayRequest {
            client,
            request_id,
            request: *request,
        },
    }
}
