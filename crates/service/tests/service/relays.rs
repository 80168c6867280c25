//! Relays of other machines, and their packets in traces.

use ferretto_format::machine_clock::{Exchange, MachineClock, STATED, STATED_ERROR, STATED_OFFSET};
use ferretto_ipc::port::relay::Request;
use ferretto_proto::fields::{clock_snapshot, remote_clock_sync, trace_packet as f};
use ferretto_proto::sync_clock_request::{Clock, Phase};
use ferretto_proto::{InitRelayRequest, Message, SyncClockRequest, SystemInfo};
use ferretto_service::{ClientId, Event, Peer};
use ferretto_wire::Fields;

use crate::world::{ConfigBuilder, Packet, World};

const MACHINE: u32 = 3_820_972_779;

impl World {
    fn relay(&mut self, machine_id: u32) -> ClientId {
        let client = self.new_client();
        let peer = Peer {
            uid: 5,
            machine_id,
            machine_name: "guest".into(),
            ..Peer::default()
        };
        self.event(Event::ProducerConnected { client, peer });
        client
    }

    fn relayed(&mut self, client: ClientId, request: Request) {
        let request_id = Some(self.new_request());
        self.event(Event::RelayRequest {
            client,
            request_id,
            request,
        });
    }

    fn init_relay(&mut self, client: ClientId, page_size: u32) {
        let info = SystemInfo {
            page_size: Some(page_size),
            ..Default::default()
        };
        let request = InitRelayRequest {
            system_info: info.into(),
            ..Default::default()
        };
        self.relayed(client, Request::InitRelay(request));
    }

    /// Makes one exchange; the relay's boot time is `boottime`.
    fn sync(&mut self, client: ClientId, phase: Phase, boottime: u64) {
        let clock = |id, timestamp| Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
            ..Default::default()
        };
        let request = SyncClockRequest {
            phase: Some(phase),
            clocks: vec![clock(6, boottime), clock(3, boottime + 1)],
            ..Default::default()
        };
        self.relayed(client, Request::SyncClock(request));
    }

    fn sync_round(&mut self, client: ClientId, boottime: u64) {
        self.sync(client, Phase::PING, boottime);
        self.sync(client, Phase::UPDATE, boottime + 1);
    }
}

fn messages(bytes: &[u8], number: u32) -> Vec<Vec<u8>> {
    let fields = Fields::new(bytes).map(Result::unwrap);
    let messages = fields.filter(|field| field.number == number);
    messages
        .map(|field| field.as_bytes().unwrap().to_vec())
        .collect()
}

/// Returns the clock ids and readings of a snapshot.
fn clocks(snapshot: &[u8]) -> Vec<(u64, u64)> {
    let readings = messages(snapshot, clock_snapshot::CLOCKS);
    let reading = |bytes: &Vec<u8>| {
        let mut fields = Fields::new(bytes).map(Result::unwrap);
        let mut next = || fields.next().unwrap().as_u64().unwrap();
        (next(), next())
    };
    readings.iter().map(reading).collect()
}

/// Returns the boot times of relay and service, exchange by exchange, of each packet about a
/// machine's clocks.
fn synced(packets: &[Packet]) -> Vec<Vec<(u64, u64)>> {
    use remote_clock_sync::{SYNCED_CLOCKS, synced_clocks};
    let packets = packets.iter().filter(|p| p.has(f::REMOTE_CLOCK_SYNC));
    let boottime = |exchange: &[u8], side| clocks(&messages(exchange, side)[0])[0].1;
    let reported = packets.map(|packet| {
        let exchanges = messages(packet.bytes(f::REMOTE_CLOCK_SYNC).unwrap(), SYNCED_CLOCKS);
        let pair = |exchange: &Vec<u8>| {
            (
                boottime(exchange, synced_clocks::CLIENT_CLOCKS),
                boottime(exchange, synced_clocks::HOST_CLOCKS),
            )
        };
        exchanges.iter().map(pair).collect()
    });
    reported.collect()
}

fn client_times(packets: &[Packet]) -> Vec<Vec<u64>> {
    let packets = synced(packets);
    let times = packets.iter();
    times
        .map(|exchanges| exchanges.iter().map(|(client, _)| *client).collect())
        .collect()
}

fn described(packets: &[Packet]) -> Vec<(u64, u32)> {
    let infos = packets.iter().filter(|packet| packet.has(f::SYSTEM_INFO));
    let remote = infos.filter(|packet| packet.has(f::MACHINE_ID));
    remote
        .map(|packet| {
            let info =
                SystemInfo::decode_from_slice(packet.bytes(f::SYSTEM_INFO).unwrap()).unwrap();
            (packet.int(f::MACHINE_ID).unwrap(), info.page_size.unwrap())
        })
        .collect()
}

#[test]
fn service_079_two_exchanges_make_one_packet() {
    let mut world = World::new();
    let relay = world.relay(MACHINE);
    let begin = world.now.boottime;
    world.sync(relay, Phase::PING, 100);
    world.advance(7);
    world.sync(relay, Phase::UPDATE, 200);
    assert_eq!(world.relay_replies, [relay, relay]);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    assert_eq!(synced(&packets), [[(100, begin), (200, begin + 7)]]);
    let packet = packets
        .iter()
        .find(|p| p.has(f::REMOTE_CLOCK_SYNC))
        .unwrap();
    assert_eq!(packet.int(f::MACHINE_ID), Some(MACHINE.into()));
    assert_eq!(packet.int(f::TRUSTED_UID), Some(1000));
    for absent in [
        f::TRUSTED_PACKET_SEQUENCE_ID,
        f::TIMESTAMP,
        f::TIMESTAMP_CLOCK_ID,
    ] {
        assert!(!packet.has(absent));
    }
    // All clocks of both sides; the relay's as it sent them.
    let bytes = packet.bytes(f::REMOTE_CLOCK_SYNC).unwrap();
    let exchange = &messages(bytes, 1)[0];
    assert_eq!(clocks(&messages(exchange, 2)[0]), [(6, 100), (3, 101)]);
    let host: Vec<_> = clocks(&messages(exchange, 3)[0])
        .iter()
        .map(|c| c.0)
        .collect();
    assert_eq!(host, [6, 2, 4, 1, 3, 5]);
    // There is no new exchange to report.
    assert!(synced(&world.read(consumer)).is_empty());
    // Each session gets them.
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new());
    assert_eq!(client_times(&world.read(other)), [[100, 200]]);
}

#[test]
fn service_079_a_relay_that_left_before_the_recording_is_not_told_of() {
    let mut world = World::new();
    let other = world.consumer();
    world.enable(other, ConfigBuilder::new());
    let relay = world.relay(MACHINE);
    world.init_relay(relay, 4096);
    world.sync_round(relay, 100);
    world.disconnect(relay);
    world.advance(1);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    assert!(synced(&packets).is_empty() && described(&packets).is_empty());
    // The other recording had started before.
    let packets = world.read(other);
    assert_eq!(client_times(&packets), [[100, 101]]);
    assert_eq!(described(&packets), [(MACHINE.into(), 4096)]);
    assert!(synced(&world.read(other)).is_empty());
}

#[test]
fn clocks_of_a_reconnected_machine_cover_both_connections() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    for begin in [100, 200, 300] {
        let relay = world.relay(MACHINE);
        world.init_relay(relay, 4096);
        // A second relay of the machine adds nothing.
        let second = world.relay(MACHINE);
        world.sync_round(second, begin + 50);
        world.sync_round(relay, begin);
        world.disconnect(second);
        if begin < 300 {
            world.disconnect(relay);
        }
    }
    let packets = world.read(consumer);
    assert_eq!(client_times(&packets), [[100, 101], [200, 201], [300, 301]]);
    assert_eq!(described(&packets), [(MACHINE.into(), 4096)]);
    assert!(synced(&world.read(consumer)).is_empty());
}

#[test]
fn state_of_departed_relays_is_bounded_and_freed_after_the_recording() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let clock = Clock {
        clock_id: Some(6),
        timestamp: Some(1),
        ..Default::default()
    };
    let before = world.service.memory_needed();
    for machine in 1..3000 {
        let relay = world.relay(machine);
        for _ in 0..5 {
            let request = SyncClockRequest {
                clocks: vec![clock.clone(); 64],
                ..Default::default()
            };
            world.relayed(relay, Request::SyncClock(request));
        }
        world.disconnect(relay);
    }
    let needed = world.service.memory_needed() - before;
    assert!(needed <= 5 << 20, "{needed}");
    assert!(needed > 1 << 20, "{needed}");
    world.disconnect(consumer);
    assert!(world.service.memory_needed() < before);
}

/// Returns boot times that a hostile machine may send.
fn nonsense() -> [u64; 8] {
    let half = 1 << 63;
    [0, u64::MAX, half, half - 1, half + 1, 1, u64::MAX - 1, 0]
}

#[test]
fn invalid_clocks_of_one_machine_are_bounded_and_affect_no_other() {
    const SECOND: u64 = 1_000_000_000;
    let mut world = World::new();
    let honest = frequent(&mut world, 5);
    let hostile = frequent(&mut world, 7);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let mut ahead = 0;
    for round in 0..3000_u64 {
        // Forwards, backwards, standing still, each many times a second.
        for phase in [Phase::PING, Phase::UPDATE] {
            let index = (round % 8) as usize;
            world.sync(hostile, phase, nonsense()[index].wrapping_add(round));
            world.advance(1000);
        }
        if round % 100 == 0 {
            ahead = 77 * SECOND;
            let now = world.now.boottime;
            world.sync(honest, Phase::PING, now + ahead);
            world.advance(2000);
            world.sync(honest, Phase::UPDATE, now + ahead + 2000);
        }
    }
    let packets = world.read(consumer);
    let of = |machine: u64| {
        packets.iter().filter(move |packet| {
            packet.has(f::REMOTE_CLOCK_SYNC) && packet.int(f::MACHINE_ID) == Some(machine)
        })
    };
    assert!(of(7).count() < 300);
    let (mut clocks, mut found) = (MachineClock::default(), 0);
    for packet in of(5) {
        let exchanges = synced(std::slice::from_ref(packet)).remove(0);
        let exchanges = exchanges.iter().map(|(client, host)| Exchange {
            client: *client,
            host: *host,
        });
        clocks.add(&exchanges.collect::<Vec<_>>());
        found += 1;
    }
    assert!(found > 0);
    let offset = clocks.curve().overall().unwrap();
    assert!(offset.offset.abs_diff(ahead as i64) <= offset.error);
    assert!(offset.error <= 2000, "{offset:?}");
    // The clocks of the hostile relay are only as certain as its own statements.
    for packet in of(7) {
        let sync = packet.bytes(f::REMOTE_CLOCK_SYNC).unwrap();
        let exchanges = synced(std::slice::from_ref(packet)).remove(0);
        for stated in messages(sync, STATED) {
            let number = |field| Fields::find(field, &stated).unwrap().as_u64().unwrap();
            let (offset, error) = (number(STATED_OFFSET) as i64, number(STATED_ERROR));
            let holds = exchanges.windows(2).any(|two| {
                let ahead = i128::from(two[0].0) - i128::from(two[0].1);
                (i128::from(offset) - ahead).unsigned_abs() <= u128::from(error)
            });
            assert!(holds, "{exchanges:?} {offset} {error}");
        }
    }
}

#[test]
fn service_079_relay_012_the_last_five_exchanges_are_kept() {
    let mut world = World::new();
    let relay = world.relay(MACHINE);
    for number in 1..=7 {
        let phase = if number % 2 == 1 {
            Phase::PING
        } else {
            Phase::UPDATE
        };
        world.sync(relay, phase, number);
    }
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    assert_eq!(client_times(&world.read(consumer)), [[3, 4, 5, 6, 7]]);
}

#[test]
fn each_new_clock_comparison_is_in_the_trace() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    assert!(synced(&world.read(consumer)).is_empty());
    // A machine that connects later is also described.
    let relay = world.relay(MACHINE);
    world.sync(relay, Phase::PING, 1);
    assert!(
        synced(&world.read(consumer)).is_empty(),
        "a single exchange is not reported"
    );
    world.sync(relay, Phase::UPDATE, 2);
    assert_eq!(client_times(&world.read(consumer)), [[1, 2]]);
    // A round trip is never split.
    world.sync(relay, Phase::PING, 3);
    assert!(synced(&world.read(consumer)).is_empty());
    world.sync(relay, Phase::UPDATE, 4);
    world.sync(relay, Phase::PING, 5);
    assert_eq!(client_times(&world.read(consumer)), [[3, 4]]);
    // After a reconnection, counting starts again.
    world.disconnect(relay);
    let relay = world.relay(MACHINE);
    world.sync_round(relay, 10);
    assert_eq!(client_times(&world.read(consumer)), [[10, 11]]);
}

#[test]
fn one_relay_represents_a_machine_and_none_the_service_s_own() {
    let mut world = World::new();
    let relays = [MACHINE, MACHINE, 7, 0].map(|machine| world.relay(machine));
    for (number, relay) in relays.into_iter().enumerate() {
        let number = number as u32 + 1;
        world.init_relay(relay, number);
        world.sync_round(relay, u64::from(number) * 100);
    }
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    let mut times = client_times(&packets);
    times.sort();
    assert_eq!(times, [[100, 101], [300, 301]]);
    let mut machines = described(&packets);
    machines.sort_unstable();
    assert_eq!(machines, [(7, 3), (MACHINE.into(), 1)]);
}

#[test]
fn machines_are_described_once_and_on_the_service_s_sequence() {
    let mut world = World::new();
    let relay = world.relay(MACHINE);
    world.init_relay(relay, 4096);
    world.init_relay(relay, 16384);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    assert_eq!(described(&packets), [(MACHINE.into(), 16384)]);
    let own = |p: &&Packet| p.has(f::SYSTEM_INFO);
    let infos: Vec<_> = packets.iter().filter(own).collect();
    assert_eq!(infos.len(), 2);
    assert!(
        !infos[0].has(f::MACHINE_ID),
        "the service's own machine comes first"
    );
    assert_eq!(infos[1].sequence(), 1);
    assert!(described(&world.read(consumer)).is_empty());
    let late = world.relay(9);
    world.init_relay(late, 4);
    assert_eq!(described(&world.read(consumer)), [(9, 4)]);
}

#[test]
fn relay_014_a_config_can_do_without() {
    let mut world = World::new();
    let relay = world.relay(MACHINE);
    world.init_relay(relay, 4096);
    world.sync_round(relay, 1);
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|c| {
        let builtin = c.builtin_data_sources.get_or_insert_default();
        builtin.disable_clock_snapshotting = Some(true);
        builtin.disable_system_info = Some(true);
    });
    world.enable(consumer, config);
    let packets = world.read(consumer);
    assert!(synced(&packets).is_empty() && described(&packets).is_empty());
}

#[test]
fn state_sent_by_a_relay_is_bounded() {
    let mut world = World::new();
    let relay = world.relay(MACHINE);
    let clock = Clock {
        clock_id: Some(6),
        timestamp: Some(1),
        ..Default::default()
    };
    for _ in 0..100 {
        let request = SyncClockRequest {
            clocks: vec![clock.clone(); 10_000],
            ..Default::default()
        };
        world.relayed(relay, Request::SyncClock(request));
    }
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    let packet = packets
        .iter()
        .find(|p| p.has(f::REMOTE_CLOCK_SYNC))
        .unwrap();
    let exchanges = messages(packet.bytes(f::REMOTE_CLOCK_SYNC).unwrap(), 1);
    assert_eq!(exchanges.len(), 5);
    assert_eq!(clocks(&messages(&exchanges[0], 2)[0]).len(), 64);
    // Nor does a client without a connection event have an effect.
    let stranger = world.new_client();
    world.sync(stranger, Phase::PING, 1);
    assert_eq!(world.relay_replies.len(), 100);
}

/// Returns a relay that compares clocks as often as requested, and has been described.
fn frequent(world: &mut World, machine: u32) -> ClientId {
    let relay = world.relay(machine);
    let mut request = InitRelayRequest::default();
    ferretto_ipc::port::relay::offer_comparisons(&mut request);
    world.relayed(relay, Request::InitRelay(request));
    relay
}

#[test]
fn frequent_comparisons_of_a_relay_cover_the_whole_recording() {
    const SECOND: u64 = 1_000_000_000;
    let mut world = World::new();
    let relay = frequent(&mut world, MACHINE);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    // Two exchanges every three seconds; every second comparison is faster.
    for round in 0..60 {
        let delay = if round % 2 == 1 { 1_000 } else { 400_000 };
        let now = world.now.boottime;
        world.advance(delay);
        world.sync(relay, Phase::PING, now + 77 * SECOND);
        let now = world.now.boottime + delay;
        world.advance(2 * delay);
        world.sync(relay, Phase::UPDATE, now + 77 * SECOND);
        world.advance(3 * SECOND - 3 * delay);
    }
    let packets = world.read(consumer);
    let reported = synced(&packets);
    // One for every five seconds, and the last of all. Distant exchanges are never in one packet.
    assert!((36..=39).contains(&reported.len()), "{}", reported.len());
    for exchanges in &reported {
        assert_eq!(exchanges.len(), 2, "{exchanges:?}");
    }
    let good = reported
        .iter()
        .filter(|exchanges| exchanges[1].0 - exchanges[0].0 == 2_000);
    assert!(good.count() >= 29);
    // Each has its offset.
    for packet in packets.iter().filter(|p| p.has(f::REMOTE_CLOCK_SYNC)) {
        let stated = messages(packet.bytes(f::REMOTE_CLOCK_SYNC).unwrap(), STATED);
        let number = |field| Fields::find(field, &stated[0]).unwrap().as_u64().unwrap();
        assert_eq!(number(STATED_OFFSET), 77 * SECOND);
        assert!(number(STATED_ERROR) <= 400_000);
    }
    // None is reported twice.
    assert!(synced(&world.read(consumer)).is_empty());
    // Readings from before a recording are not in it, except the last one.
    let later = world.consumer();
    world.enable(later, ConfigBuilder::new());
    assert!(synced(&world.read(later)).len() <= 3);
}
