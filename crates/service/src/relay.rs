//! Relays of other machines, and what they tell about them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ferretto_ipc::port::relay::{Reply, Request};
use ferretto_proto::sync_clock_request::Phase;
use ferretto_proto::{InitRelayRequest, Message, SyncClockRequest};

use crate::clocks::Clocks;
use crate::command::{Command, Commands};
use crate::event::ClientId;
use crate::limits::{MAX_CLOCKS_PER_EXCHANGE, MAX_EXCHANGES};

/// The relays that have called, by their connections.
#[derive(Debug, Default)]
pub(crate) struct Relays(BTreeMap<ClientId, Relay>);

/// A connection of a relay that has called.
#[derive(Debug)]
struct Relay {
    machine: u32,
    /// `SystemInfo`, encoded.
    system_info: Option<Vec<u8>>,
    /// The latest, oldest first.
    exchanges: VecDeque<Exchange>,
    /// The number of them so far.
    count: u64,
}

/// The clocks of both machines at about the same time.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// Counts the relay's exchanges, from 1.
    pub(crate) number: u64,
    /// The relay's next is the other half of a round trip, and follows at once.
    is_ping: bool,
    /// Clock ids and readings, as the relay sent them.
    pub(crate) client: Vec<(u32, u64)>,
    /// Read when that came.
    pub(crate) host: Clocks,
}

/// The machines that a trace tells of already.
#[derive(Debug, Default, Clone)]
pub(crate) struct ToldMachines {
    clocks: BTreeMap<u32, ToldClocks>,
    described: BTreeSet<u32>,
}

#[derive(Debug, Clone, Copy)]
struct ToldClocks {
    relay: ClientId,
    /// Returns the number of the last exchange.
    up_to: u64,
}

/// Machines one trace can tell of. Upstream sets no bound.
const MAX_MACHINES: usize = 4096;

impl Relays {
    /// Handles a request of a relay, given with the machine that it speaks for.
    pub(crate) fn request(
        &mut self,
        commands: &mut Commands,
        now: &Clocks,
        (client, machine): (ClientId, u32),
        request_id: Option<u64>,
        request: Request,
    ) {
        let reply = match &request {
            Request::InitRelay(_) => Reply::InitRelay(Default::default()),
            Request::SyncClock(_) => Reply::SyncClock(Default::default()),
        };
        // Before anything else: the relay measures how long the answer takes.
        if let Some(request_id) = request_id {
            commands.push(Command::RelayReply {
                client,
                request_id,
                reply,
            });
        }
        let relay = self.0.entry(client).or_insert_with(|| Relay::new(machine));
        match request {
            Request::InitRelay(request) => relay.describe(&request),
            Request::SyncClock(request) => relay.compare(&request, now),
        }
    }

    pub(crate) fn disconnect(&mut self, client: ClientId) {
        self.0.remove(&client);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns how many bytes are kept of what relays said.
    pub(crate) fn bytes(&self) -> usize {
        self.0.values().map(Relay::bytes).sum()
    }

    /// Returns the relays of other machines, one for each: the one that has been connected longest.
    fn relays_by_machine(&self) -> BTreeMap<u32, (ClientId, &Relay)> {
        let mut machines = BTreeMap::new();
        for (client, relay) in &self.0 {
            if relay.machine != 0 {
                machines.entry(relay.machine).or_insert((*client, relay));
            }
        }
        machines
    }

    /// Returns descriptions of machines that `told` does not have yet: machine ids with encoded
    /// `SystemInfo`.
    pub(crate) fn new_machines(&self, told: &mut ToldMachines) -> Vec<(u32, Vec<u8>)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let described = self.0.values().filter(|relay| relay.machine != 0);
        let described = described.filter_map(|r| Some((r.machine, r.system_info.as_ref()?)));
        let new = described.filter(|(machine, _)| told.describe(*machine));
        new.map(|(machine, info)| (machine, info.clone())).collect()
    }

    /// Returns comparisons of clocks that `told` does not have yet, by machine.
    pub(crate) fn new_exchanges(&self, told: &mut ToldMachines) -> Vec<(u32, Vec<Exchange>)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut new = Vec::new();
        for (machine, (client, relay)) in self.relays_by_machine() {
            let exchanges = relay.exchanges_after(told.up_to(machine, client));
            if let Some(last) = exchanges.last()
                && told.compare(machine, client, last.number)
            {
                new.push((machine, exchanges));
            }
        }
        new
    }
}

impl Relay {
    /// Returns how many bytes are kept of what it said.
    fn bytes(&self) -> usize {
        let clocks = self.exchanges.iter().map(|exchange| exchange.client.len());
        let described = self.system_info.as_ref().map_or(0, Vec::len);
        described + clocks.sum::<usize>() * size_of::<(u32, u64)>()
    }

    fn new(machine: u32) -> Self {
        Self {
            machine,
            system_info: None,
            exchanges: VecDeque::new(),
            count: 0,
        }
    }

    fn describe(&mut self, request: &InitRelayRequest) {
        let info = request.system_info.as_option();
        self.system_info = info.map(Message::encode_to_vec);
    }

    fn compare(&mut self, request: &SyncClockRequest, host: &Clocks) {
        if self.exchanges.len() == MAX_EXCHANGES {
            self.exchanges.pop_front();
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

    /// Returns the exchanges for a trace that has those up to this number. Readers need both halves
    /// of a round trip in one packet, so nothing is told before there are two exchanges, and no
    /// first half alone after others.
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

impl ToldMachines {
    /// Notes that a machine is described; returns whether it was not yet.
    fn describe(&mut self, machine: u32) -> bool {
        self.described.len() < MAX_MACHINES && self.described.insert(machine)
    }

    /// Returns the number of the last exchange with this relay that was told.
    fn up_to(&self, machine: u32, relay: ClientId) -> u64 {
        let told = self.clocks.get(&machine);
        told.filter(|told| told.relay == relay)
            .map_or(0, |told| told.up_to)
    }

    /// Notes that exchanges are told; returns whether there is room for that.
    fn compare(&mut self, machine: u32, relay: ClientId, up_to: u64) -> bool {
        let known = self.clocks.contains_key(&machine);
        let fits = known || self.clocks.len() < MAX_MACHINES;
        if fits {
            self.clocks.insert(machine, ToldClocks { relay, up_to });
        }
        fits
    }
}
