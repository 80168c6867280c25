//! Relays of other machines: their clocks and descriptions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ferretto_format::{clock, machine_clock};
use ferretto_ipc::port::relay::{self, Reply, Request};
use ferretto_ipc::port::state::MachineState;
use ferretto_proto::sync_clock_request::Phase;
use ferretto_proto::{InitRelayRequest, Message, SyncClockRequest};

use crate::clocks::Clocks;
use crate::command::{Command, Commands};
use crate::event::ClientId;
use crate::limits::{MAX_CLOCKS_PER_EXCHANGE, MAX_EXCHANGES};

/// The connected relays, and the departed ones that running recordings still refer to.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    connected: BTreeMap<ClientId, Relay>,
    /// The departed relays, oldest first.
    departed: VecDeque<Departed>,
    /// The memory of the departed relays, in bytes.
    departed_bytes: usize,
}

/// A relay whose connection has ended. Its clocks and names are kept for the recordings during
/// which it was connected.
#[derive(Debug)]
struct Departed {
    client: ClientId,
    relay: Relay,
    bytes: usize,
    /// The boot time of its departure.
    at: u64,
}

/// A connection of a relay.
#[derive(Debug)]
struct Relay {
    machine: u32,
    /// `SystemInfo`, encoded.
    system_info: Option<Vec<u8>>,
    /// The latest clock exchanges, oldest first.
    exchanges: VecDeque<Exchange>,
    /// The number of exchanges so far.
    count: u64,
    /// Set if the relay compares clocks as often as the service asks for. Two exchanges in a row
    /// are then not always one comparison.
    is_frequent: bool,
    /// Earlier comparisons: the best one of each period.
    earlier: VecDeque<[Exchange; 2]>,
    /// The length of a period, in nanoseconds.
    period: u64,
}

/// The pause between comparisons that the service asks for, in milliseconds.
const COMPARE_EVERY_MS: u64 = 5_000;
/// The largest distance of the exchanges of one comparison, in nanoseconds.
const ONE_COMPARISON: u64 = 2_000_000_000;
/// The number of earlier comparisons kept. Beyond it, the better half is kept.
const MAX_EARLIER: usize = 256;
/// The memory kept of departed relays, in bytes.
const MAX_DEPARTED: usize = 4 << 20;

/// Readings of the clocks of both machines at about the same time.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// The number of the exchange, from 1.
    pub(crate) number: u64,
    /// Set if this is the first half of a round trip: the relay's next exchange is the second half.
    is_ping: bool,
    /// Clock ids and readings, as the relay sent them.
    pub(crate) client: Vec<(u32, u64)>,
    /// The service's clocks when the relay's arrived.
    pub(crate) host: Clocks,
}

/// The machines that a trace already describes.
#[derive(Debug, Default, Clone)]
pub(crate) struct SentMachines {
    /// The number of the last written exchange of each relay.
    clocks: BTreeMap<ClientId, u64>,
    described: BTreeSet<u32>,
}

/// The number of machines that one trace can describe. Upstream sets no limit.
const MAX_MACHINES: usize = 4096;

impl Relays {
    /// Handles a request of a relay, with the machine that it represents.
    pub(crate) fn request(
        &mut self,
        commands: &mut Commands,
        now: &Clocks,
        (client, machine): (ClientId, u32),
        request_id: Option<u64>,
        request: Request,
    ) {
        let reply = match &request {
            Request::InitRelay(request) if relay::may_be_asked(request) => {
                Reply::InitRelay(relay::compare_clocks_every(COMPARE_EVERY_MS))
            }
            Request::InitRelay(_) => Reply::InitRelay(Default::default()),
            Request::SyncClock(_) => Reply::SyncClock(Default::default()),
        };
        // The reply goes first, since the relay measures the round trip.
        if let Some(request_id) = request_id {
            commands.push(Command::RelayReply {
                client,
                request_id,
                reply,
            });
        }
        let relay = self
            .connected
            .entry(client)
            .or_insert_with(|| Relay::new(machine));
        match request {
            Request::InitRelay(request) => relay.describe(&request),
            Request::SyncClock(request) => relay.compare(&request, now),
        }
    }

    /// Removes a relay. While there are recordings, its state is kept until
    /// [`forget_departed`](Self::forget_departed).
    pub(crate) fn disconnect(&mut self, client: ClientId, now: &Clocks, is_recording: bool) {
        let Some(relay) = self.connected.remove(&client) else {
            return;
        };
        // Relays of one machine are ordered by age: this one was the oldest.
        let mut others = self.connected.range(..client).map(|(_, other)| other);
        let spoke = relay.machine != 0 && others.all(|other| other.machine != relay.machine);
        if !spoke || !is_recording {
            return;
        }
        let (bytes, at) = (relay.bytes(), now.boottime);
        self.departed_bytes += bytes;
        self.departed.push_back(Departed {
            client,
            relay,
            bytes,
            at,
        });
        while self.departed_bytes > MAX_DEPARTED
            && let Some(oldest) = self.departed.pop_front()
        {
            self.departed_bytes -= oldest.bytes;
        }
    }

    /// Drops the state of departed relays, as no recording is left.
    pub(crate) fn forget_departed(&mut self) {
        self.departed.clear();
        self.departed_bytes = 0;
    }

    /// Returns the number of connected relays.
    pub(crate) fn len(&self) -> usize {
        self.connected.len()
    }

    /// Returns the memory kept of all relays, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let connected = self.connected.values().map(Relay::bytes);
        connected.sum::<usize>() + self.departed_bytes
    }

    /// Returns the clock offsets of other machines by the last comparisons.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = MachineState> {
        self.speakers().into_iter().filter_map(|(id, (_, relay))| {
            let exchanges: Vec<_> = relay.exchanges.iter().cloned().collect();
            let offset = offset(&exchanges)?;
            Some(MachineState {
                id,
                offset: offset.offset,
                error: offset.error,
            })
        })
    }

    /// Returns one relay of each other machine: the one that has been connected longest.
    fn speakers(&self) -> BTreeMap<u32, (ClientId, &Relay)> {
        let mut machines = BTreeMap::new();
        for (client, relay) in &self.connected {
            if relay.machine != 0 {
                machines.entry(relay.machine).or_insert((*client, relay));
            }
        }
        machines
    }

    /// Returns the relays that departed after a recording began at this boot time, in the order of
    /// departure.
    fn departed_since(&self, since: u64) -> impl Iterator<Item = (ClientId, &Relay)> {
        let departed = self.departed.iter();
        let departed = departed.skip_while(move |departed| departed.at < since);
        departed.map(|departed| (departed.client, &departed.relay))
    }

    fn knows_none(&self) -> bool {
        self.connected.is_empty() && self.departed.is_empty()
    }

    /// Returns the descriptions that `sent` does not have yet, for a recording that began at this
    /// boot time: machine ids with encoded `SystemInfo`.
    pub(crate) fn new_machines(&self, sent: &mut SentMachines, since: u64) -> Vec<(u32, Vec<u8>)> {
        if self.knows_none() {
            return Vec::new();
        }
        let departed = self.departed_since(since).map(|(_, relay)| relay);
        let described = departed.chain(self.connected.values());
        let described = described.filter(|relay| relay.machine != 0);
        let described = described.filter_map(|r| Some((r.machine, r.system_info.as_ref()?)));
        let new = described.filter(|(machine, _)| sent.describe(*machine));
        new.map(|(machine, info)| (machine, info.clone())).collect()
    }

    /// Returns the clock comparisons that `sent` does not have yet, by machine, for a recording
    /// that began at this boot time.
    pub(crate) fn new_exchanges(
        &self,
        sent: &mut SentMachines,
        since: u64,
    ) -> Vec<(u32, Vec<Exchange>)> {
        if self.knows_none() {
            return Vec::new();
        }
        let connected = self.speakers().into_values();
        let all: Vec<_> = self.departed_since(since).chain(connected).collect();
        let clients: BTreeSet<_> = all.iter().map(|(client, _)| *client).collect();
        sent.keep_only(|client| clients.contains(&client));
        let mut new = Vec::new();
        for (client, relay) in all {
            let up_to = sent.up_to(client);
            let exchanges = relay.exchanges_after(up_to);
            if let Some(last) = exchanges.last()
                && sent.compare(client, last.number)
            {
                let earlier = relay.earlier_after(up_to, since);
                new.extend(earlier.map(|exchanges| (relay.machine, exchanges)));
                let together = |one: &Exchange, other: &Exchange| {
                    !relay.is_frequent || other.host.boottime - one.host.boottime < ONE_COMPARISON
                };
                let comparisons = exchanges.chunk_by(together);
                let comparisons = comparisons.filter(|exchanges| exchanges.len() > 1);
                new.extend(comparisons.map(|exchanges| (relay.machine, exchanges.to_vec())));
            }
        }
        new
    }
}

impl Relay {
    /// Returns the memory kept of the relay, in bytes.
    fn bytes(&self) -> usize {
        let described = self.system_info.as_ref().map_or(0, Vec::len);
        let exchanges = self.exchanges.iter().chain(self.earlier.iter().flatten());
        let readings = exchanges.map(|exchange| {
            size_of::<Exchange>() + exchange.client.len() * size_of::<(u32, u64)>()
        });
        size_of::<Self>() + described + readings.sum::<usize>()
    }

    fn new(machine: u32) -> Self {
        Self {
            machine,
            system_info: None,
            exchanges: VecDeque::new(),
            count: 0,
            is_frequent: false,
            earlier: VecDeque::new(),
            period: COMPARE_EVERY_MS * 1_000_000,
        }
    }

    fn describe(&mut self, request: &InitRelayRequest) {
        self.is_frequent = relay::may_be_asked(request);
        let info = request.system_info.as_option();
        self.system_info = info.map(Message::encode_to_vec);
    }

    fn compare(&mut self, request: &SyncClockRequest, host: &Clocks) {
        if self.exchanges.len() == MAX_EXCHANGES
            && let Some(oldest) = self.exchanges.pop_front()
            && let Some(next) = self.exchanges.front().cloned()
        {
            self.remember([oldest, next]);
        }
        self.count += 1;
        let clocks = request.clocks.iter().take(MAX_CLOCKS_PER_EXCHANGE);
        let reading = |clock: &ferretto_proto::sync_clock_request::Clock| {
            (clock.clock_id.unwrap_or(0), clock.timestamp.unwrap_or(0))
        };
        self.exchanges.push_back(Exchange {
            number: self.count,
            is_ping: request.phase == Some(Phase::PING),
            client: clocks.map(reading).collect(),
            host: *host,
        });
    }

    /// Keeps the best comparison of each period, if these exchanges are a comparison.
    fn remember(&mut self, comparison: [Exchange; 2]) {
        if !self.is_frequent || error_of(&comparison) == u64::MAX {
            return;
        }
        let period = |[first, _]: &[Exchange; 2], length| first.host.boottime / length;
        let now = period(&comparison, self.period);
        match self.earlier.back_mut() {
            Some(last) if period(last, self.period) == now => {
                if error_of(&comparison) < error_of(last) {
                    *last = comparison;
                }
            }
            _ => self.earlier.push_back(comparison),
        }
        if self.earlier.len() > MAX_EARLIER {
            self.period *= 2;
            let all: Vec<_> = self.earlier.drain(..).collect();
            let halves = all.chunk_by(|a, b| period(a, self.period) == period(b, self.period));
            let best = halves.filter_map(|half| half.iter().min_by_key(|c| error_of(c)));
            self.earlier = best.cloned().collect();
        }
    }

    /// Returns the earlier comparisons since a time, preceded by the last one before it. A trace
    /// has the comparisons up to `number`.
    fn earlier_after(&self, number: u64, since: u64) -> impl Iterator<Item = Vec<Exchange>> {
        let begun = |comparison: &&[Exchange; 2]| comparison[0].host.boottime < since;
        let before = self.earlier.iter().take_while(begun).count();
        let wanted = self.earlier.iter().skip(before.saturating_sub(1));
        let first = self
            .exchanges
            .front()
            .map_or(u64::MAX, |first| first.number);
        let new = wanted.filter(move |[one, other]| one.number > number && other.number <= first);
        new.map(|comparison| comparison.to_vec())
    }

    /// Returns the exchanges after `number` for a trace. Readers need both halves of a round trip
    /// in one packet, so the result is empty before there are two exchanges, and never ends with a
    /// lone first half.
    fn exchanges_after(&self, number: u64) -> Vec<Exchange> {
        let new = self.exchanges.iter().filter(|e| e.number > number);
        let mut new: Vec<_> = new.cloned().collect();
        if number > 0 && new.last().is_some_and(|last| last.is_ping) {
            new.pop();
        }
        if new.len() < 2 {
            new.clear();
        }
        new
    }
}

impl Exchange {
    /// Returns the boot times of both machines, if the relay sent its own.
    fn boottimes(&self) -> Option<machine_clock::Exchange> {
        let mut clocks = self.client.iter();
        let (_, client) = clocks.find(|(id, _)| *id == clock::BOOTTIME)?;
        Some(machine_clock::Exchange {
            client: *client,
            host: self.host.boottime,
        })
    }
}

/// Returns the offset of the machine's boot time from this machine's, by the best pair of
/// consecutive exchanges.
pub(crate) fn offset(exchanges: &[Exchange]) -> Option<machine_clock::Offset> {
    let mut clock = machine_clock::MachineClock::default();
    let boottimes = exchanges.iter().filter_map(Exchange::boottimes);
    clock.add(&boottimes.collect::<Vec<_>>());
    clock.best()
}

/// Returns the largest error of a comparison.
fn error_of(comparison: &[Exchange; 2]) -> u64 {
    let [one, other] = comparison;
    if other.host.boottime.saturating_sub(one.host.boottime) >= ONE_COMPARISON {
        return u64::MAX;
    }
    offset(comparison).map_or(u64::MAX, |offset| offset.error)
}

impl SentMachines {
    /// Marks a machine as described. Returns false if it already was.
    fn describe(&mut self, machine: u32) -> bool {
        self.described.len() < MAX_MACHINES && self.described.insert(machine)
    }

    /// Forgets relays that no longer exist.
    fn keep_only(&mut self, is_there: impl Fn(ClientId) -> bool) {
        self.clocks.retain(|client, _| is_there(*client));
    }

    /// Returns the number of the relay's last written exchange.
    fn up_to(&self, relay: ClientId) -> u64 {
        self.clocks.get(&relay).copied().unwrap_or(0)
    }

    /// Marks exchanges as written. Returns false if there are too many relays.
    fn compare(&mut self, relay: ClientId, up_to: u64) -> bool {
        let known = self.clocks.contains_key(&relay);
        let fits = known || self.clocks.len() < MAX_MACHINES;
        if fits {
            self.clocks.insert(relay, up_to);
        }
        fits
    }
}
