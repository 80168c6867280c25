//! One turn of the loop: accepts connections, reads requests, carries out commands and sends
//! replies.
//!
//! Each turn does a bounded amount of work for each client that has some, and none for the others.
//! A client that keeps the service busy waits for its next turn like all others.

mod accept;
mod admit;
mod read;
mod usage;

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_ipc::Address;
use ferretto_ipc::port::PortKind;
use ferretto_ipc::port::commit::Commit;
use ferretto_ipc::socket::{Listener, RECEIVE_BUFFER_SIZE, Security};
use ferretto_priority::ThreadBoost;
use ferretto_service::driver::{Alarm, Files, clocks};
use ferretto_service::{ClientId, Clocks, Event, FileId, Service};
use mio::Registry;
use mio::unix::SourceFd;

use crate::admission::Admission;
use crate::client::{Client, Role};
use crate::closer::{Account, Closer, Remains};
use crate::heartbeat::Heartbeat;
use crate::notice::NoticeSink;
use crate::options::Limits;
use crate::origin::Origin;
use crate::remote::Remotes;
use crate::schedule::{Meter, Schedule};
use crate::watchdog::Watchdog;

/// The largest number of bytes read from one client in a turn.
const READ_PER_TURN: usize = 32 * 1024;
/// The time for reading from clients, in nanoseconds, before other work is done. The last read may
/// exceed it.
const READING: u64 = 1_000_000;
/// The work, in nanoseconds, after which it is deducted from users' allowances.
const DEDUCTION_STEP: u64 = 5_000_000;
/// The memory of a connection besides its queues.
const PER_CLIENT: u64 = 8 * 1024;
/// The time after the end of a connection, in nanoseconds, at which freed memory is returned to the
/// system.
const RELEASE_AFTER: u64 = 1_000_000_000;
/// The time for which the host waits at its end for files that are still being written.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The clocks at the time of a receive. They are only read if needed, which commits rarely do.
type Now = LazyCell<Clocks>;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct ListenerState {
    listener: Listener,
    role: Role,
    services: Arc<[PortKind]>,
    /// Set if clients may be waiting.
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

/// The remains of a client that is gone, which was not reported to the service yet.
#[derive(Debug)]
struct Gone {
    id: ClientId,
    /// True if the client did not end the connection itself.
    is_cut_off: bool,
    account: Arc<Account>,
    remains: Remains,
}

/// The layer between the event queue and the service.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub(crate) registry: Registry,
    listeners: Vec<ListenerState>,
    pub(crate) service: Service,
    pub(crate) files: Files,
    timer: Alarm,
    pub(crate) limits: Limits,
    pub(crate) admission: Admission,
    pub(crate) closer: Closer,
    pub(crate) notices: NoticeSink,
    /// The only user served besides root; `None` serves everyone.
    pub(crate) only_user: Option<u32>,
    pub(crate) remotes: Remotes,
    /// Set if producers on other machines have to identify themselves.
    pub(crate) requires_identity: bool,
    /// The encryption of connections from other machines.
    pub(crate) security: Option<Arc<dyn Security>>,
    pub(crate) boost: ThreadBoost,
    watchdog: Option<Watchdog>,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) clients: HashMap<ClientId, Client>,
    next_client: u64,
    /// The clients with bytes to read.
    schedule: Schedule,
    /// Measures the work for clients.
    meter: Meter,
    /// The CPU time of this thread that was deducted from allowances.
    deducted_cpu: u64,
    /// The part of it that was spent for no client.
    own_cpu: u64,
    /// The clients with new bytes to send.
    pub(crate) dirty: BTreeSet<ClientId>,
    /// The clients whose sockets are full.
    pub(crate) unsent: BTreeSet<ClientId>,
    /// The clients that are gone but were not reported to the service yet.
    gone: Vec<Gone>,
    /// The number of connections of programs that were not served, to be reported to the service.
    turned_away: u64,
    accept_again: Option<u64>,
    /// The time at which free memory is returned to the system.
    give_back: Option<Clocks>,
    buffer: Vec<u8>,
    /// Reusable memory for a commit.
    commit: Commit,
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
            schedule: Schedule::new(limits.cpu_per_user.clone()),
            closer: Closer::new(),
            limits,
            notices,
            only_user: None,
            remotes: Remotes::default(),
            requires_identity: false,
            security: None,
            boost: ThreadBoost::new(),
            watchdog: None,
            heartbeat: None,
            clients: HashMap::new(),
            next_client: 1,
            meter: Meter::default(),
            deducted_cpu: 0,
            own_cpu: 0,
            dirty: BTreeSet::new(),
            unsent: BTreeSet::new(),
            gone: Vec::new(),
            turned_away: 0,
            accept_again: None,
            give_back: None,
            buffer: vec![0; RECEIVE_BUFFER_SIZE.min(READ_PER_TURN)],
            commit: Commit::default(),
        }
    }

    /// Returns the addresses at which clients of these roles connect.
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
            if client.waits_to_write {
                self.dirty.insert(id);
            }
            self.line_up(id);
        }
    }

    /// Schedules a client to be read from.
    pub(crate) fn line_up(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            self.schedule.line_up(client.origin, id, &mut client.turn);
        }
    }

    pub(crate) fn timer_rang(&mut self) {
        self.timer.rang();
    }

    /// Sets the alarm for the next deadline. Returns true if there is work to do at once.
    pub(crate) fn prepare_to_wait(&mut self) -> io::Result<bool> {
        let can_accept =
            self.accept_again.is_none() && self.listeners.iter().any(|state| state.ready);
        if can_accept
            || self.schedule.has_work()
            || self.service.has_work()
            || !self.dirty.is_empty()
        {
            return Ok(true);
        }
        let stall = self.next_stall();
        let release = self.schedule.next_release();
        let release = release.map(|at| clocks::boottime() + at.saturating_sub(self.meter.at()));
        let give_back = self.give_back.map(|at| at.boottime);
        let deadlines = [
            self.service.poll_timeout(),
            self.accept_again,
            stall,
            release,
            give_back,
        ];
        self.timer.set(deadlines.into_iter().flatten().min())?;
        Ok(false)
    }

    /// Does pending work, a bounded amount for each client. Takes `CLOCK_MONOTONIC`, and returns it
    /// as of the end.
    pub(crate) fn turn(&mut self, now: u64) -> u64 {
        self.meter.begin(now);
        self.accept();
        while let Some(event) = self.files.next_event() {
            let user = file_of(&event).and_then(|file| self.service.user_of_file(file));
            self.deliver(&clocks::read(), event);
            self.count(user.map(Origin::User));
        }
        // The work before is for nobody, as is that before the replies.
        self.lap();
        self.serve();
        if self
            .service
            .poll_timeout()
            .is_some_and(|at| at <= clocks::boottime())
        {
            let now = clocks::read();
            let user = self.service.user_of_timeout(&now);
            self.service.handle_timeout(&now);
            self.carry_out(&now);
            self.count(user.map(Origin::User));
        }
        self.lap();
        for id in std::mem::take(&mut self.dirty) {
            let origin = self.clients.get(&id).map(|client| client.origin);
            self.flush(id);
            self.count(origin);
        }
        self.drop_stalled();
        if !self.gone.is_empty() || self.turned_away > 0 {
            self.carry_out(&clocks::read());
        }
        if self.schedule.undeducted() >= DEDUCTION_STEP {
            self.deduct();
        }
        if self
            .give_back
            .is_some_and(|at| at.monotonic <= self.meter.at())
        {
            self.give_memory_back();
        }
        self.meter.at()
    }

    /// Reads from clients in the order of the schedule.
    fn serve(&mut self) {
        self.schedule.release(self.meter.at());
        let end = self.meter.at() + READING;
        // Each client once, so that replies are not delayed.
        for _ in 0..self.schedule.waiting() {
            let Some((origin, id, piece)) = self.schedule.next() else {
                return;
            };
            let more = self.read(id, piece);
            // The end of a connection is charged to that connection.
            if !self.gone.is_empty() {
                self.carry_out(&clocks::read());
            }
            let work = self.lap();
            let turn = self.clients.get_mut(&id).map(|client| &mut client.turn);
            self.schedule.served((origin, id), turn, work, more);
            if self.meter.at() >= end {
                return;
            }
        }
    }

    /// Returns the work since the last call, in nanoseconds.
    fn lap(&mut self) -> u64 {
        self.meter.lap(clocks::monotonic(), clocks::thread_cpu)
    }

    /// Charges the work since the last call to a user, if it was done for one.
    fn count(&mut self, origin: Option<Origin>) {
        let work = self.lap();
        if let Some(origin) = origin {
            self.schedule.charge(origin, work);
        }
    }

    /// Deducts the users' work from their allowances.
    fn deduct(&mut self) {
        let cpu = clocks::thread_cpu();
        self.meter.note_cpu(cpu);
        let used = cpu.saturating_sub(std::mem::replace(&mut self.deducted_cpu, cpu));
        let mut excesses = Vec::new();
        self.own_cpu += self
            .schedule
            .deduct(self.meter.at(), used, |excess| excesses.push(excess));
        for excess in excesses {
            self.restrain(excess);
        }
    }

    /// Closes all connections and completes the files.
    pub(crate) fn finish(mut self) {
        let account = self.account_of(Origin::Remote);
        for state in self.listeners.drain(..) {
            let mut listener = state.listener;
            listener.remove_file();
            account.dispose(Remains::Listener(listener));
        }
        let mut clients: Vec<ClientId> = self.clients.keys().copied().collect();
        clients.sort_unstable();
        for id in clients {
            self.lose(id);
        }
        self.carry_out(&clocks::read());
        self.files.hurry();
        let deadline = Instant::now() + FINISH_TIMEOUT;
        loop {
            while self.service.has_work() && Instant::now() < deadline {
                let now = clocks::read();
                self.service.handle_timeout(&now);
                self.carry_out(&now);
            }
            let Some(event) = self.files.wait_for_event(deadline) else {
                break;
            };
            self.deliver(&clocks::read(), event);
        }
        self.files.finish(deadline);
        // Dropped with all that it still holds.
        drop(self.service);
        self.closer.finish(deadline);
    }

    /// Passes an event to the service, and carries out the resulting commands.
    pub(crate) fn deliver(&mut self, now: &Clocks, event: Event) {
        self.service.handle(now, event);
        self.carry_out(now);
    }

    /// Ends a connection that its client wants to keep, now.
    pub(crate) fn cut_off(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get(&id).filter(|client| !client.announced) {
            self.note_turned_away(client.role);
        }
        self.reject(id);
    }

    /// Ends a connection that violates the protocol or is not permitted, now.
    pub(crate) fn reject(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.closing = true;
        }
        self.lose(id);
    }

    /// Counts a connection that was not served. [`carry_out`](Self::carry_out) reports it.
    fn note_turned_away(&mut self, role: Role) {
        self.turned_away += u64::from(role != Role::Consumer);
    }

    /// Reports the connections that were not served to the service.
    pub(crate) fn report_turned_away(&mut self, now: &Clocks) {
        let connections = std::mem::take(&mut self.turned_away);
        if connections > 0 {
            self.service.handle(now, Event::TurnedAway { connections });
        }
    }

    /// Ends a connection now. [`carry_out`](Self::carry_out), which every turn ends with, reports
    /// that to the service.
    pub(crate) fn lose(&mut self, id: ClientId) {
        let Some(mut client) = self.clients.remove(&id) else {
            return;
        };
        self.unsent.remove(&id);
        self.dirty.remove(&id);
        self.release(client.origin, client.accounted);
        if let Some(remote) = client.remote {
            self.remotes.release(remote);
        }
        let _ = self.registry.deregister(&mut SourceFd(&client.raw_fd()));
        // The peer sees the end now, and not only when the socket is closed.
        client.socket.shut_down();
        let account = self.account_of(client.origin);
        let remains = Remains::Connection(client.socket, client.region);
        if client.announced {
            self.gone.push(Gone {
                id,
                is_cut_off: client.closing,
                account,
                remains,
            });
        } else {
            account.dispose(remains);
        }
        if self.watchdog.is_some() && self.give_back.is_none() {
            let now = clocks::read();
            self.give_back = Some(Clocks {
                boottime: now.boottime + RELEASE_AFTER,
                monotonic: now.monotonic + RELEASE_AFTER,
                ..now
            });
        }
        // There may be a free descriptor for a new connection.
        self.accept_again = None;
    }

    /// Reports a client that is gone to the service. Returns false if there was none.
    pub(crate) fn disconnect_next(&mut self, now: &Clocks) -> bool {
        let Some(gone) = self.gone.pop() else {
            return false;
        };
        let client = gone.id;
        if gone.is_cut_off {
            self.service.handle(now, Event::CutOff { client });
        }
        self.service.handle(now, Event::Disconnected { client });
        // Its memory is also freed on another thread, unless the service still needs it.
        gone.account.dispose(gone.remains);
        true
    }
}

/// Returns the file of an event.
fn file_of(event: &Event) -> Option<FileId> {
    match event {
        Event::FileOpened { file }
        | Event::FileWritten { file, .. }
        | Event::FileFailed { file, .. } => Some(*file),
        _ => None,
    }
}
