//! Transitions of other sessions in a trace.

use ferretto_proto::fields::{concurrent_session_event as event, trace_packet as f};
use ferretto_service::ClientId;
use ferretto_wire::Fields;

use crate::world::{Behaviour, ConfigBuilder, Packet, World};

const DISABLED: u64 = 1;
const CONFIGURED: u64 = 2;
const STARTED: u64 = 3;
const STOPPING: u64 = 4;
const CLONED: u64 = 5;

/// Returns the transitions: their time in milliseconds since `begin`, the state, and the name of
/// the session.
fn transitions(packets: &[Packet], begin: u64) -> Vec<(u64, u64, String)> {
    let seen = packets
        .iter()
        .filter(|packet| packet.has(f::CONCURRENT_SESSION_EVENT));
    seen.map(|packet| {
        assert_eq!(packet.sequence(), 1);
        assert_eq!(packet.int(f::TIMESTAMP_CLOCK_ID), Some(6));
        let message = packet.bytes(f::CONCURRENT_SESSION_EVENT).unwrap();
        let field = |number| {
            let mut fields = Fields::new(message).map(Result::unwrap);
            fields.find(|field| field.number == number)
        };
        let name = field(event::SESSION_NAME).map_or_else(String::new, |field| {
            String::from_utf8(field.as_bytes().unwrap().to_vec()).unwrap()
        });
        let state = field(event::STATE).unwrap().as_u64().unwrap();
        let time = (packet.int(f::TIMESTAMP).unwrap() - begin) / crate::world::MS;
        (time, state, name)
    })
    .collect()
}

fn recording() -> ConfigBuilder {
    ConfigBuilder::new().with(|c| {
        let builtin = c.builtin_data_sources.get_or_insert_default();
        builtin.enable_concurrent_session_events = Some(true);
    })
}

fn named(name: &str) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| c.unique_session_name = Some(name.into()))
}

fn clone_of(world: &mut World, client: ClientId, session: u64) {
    use ferretto_ipc::port::consumer::Request;
    use ferretto_proto::{CloneSessionRequest, clone_session_request::Selector};
    let request = CloneSessionRequest {
        selector: Some(Selector::SessionId(session)),
        ..Default::default()
    };
    world.call(client, Request::CloneSession(request));
}

#[test]
fn service_080_transitions_of_others_in_order() {
    let mut world = World::new();
    let begin = world.now.boottime;
    let producer = world.producer_with(
        "p",
        Behaviour {
            confirms_stop: false,
            ..Default::default()
        },
    );
    world.register_with(producer, "p", |d| d.will_notify_on_stop = Some(true));
    let (old, own, new) = (world.consumer(), world.consumer(), world.consumer());
    world.enable(old, named("old").source("p"));
    world.run_for(10);
    world.enable(
        own,
        recording().with(|c| c.unique_session_name = Some("own".into())),
    );
    world.run_for(10);
    world.disable(old);
    world.run_for(10);
    world.enable(new, named("").with(|c| c.deferred_start = Some(true)));
    let expected = [
        (0, STARTED, "old"),
        (20, STOPPING, "old"),
        (30, CONFIGURED, ""),
    ];
    let as_owned = |list: &[(u64, u64, &str)]| {
        let list = list.iter().map(|(t, s, n)| (*t, *s, (*n).to_owned()));
        list.collect::<Vec<_>>()
    };
    let packets = world.read(own);
    assert_eq!(transitions(&packets, begin), as_owned(&expected));
    let first = packets.iter().find(|p| p.has(f::CONCURRENT_SESSION_EVENT));
    let message = first.unwrap().bytes(f::CONCURRENT_SESSION_EVENT).unwrap();
    let numbers = Fields::new(message).map(|field| {
        let field = field.unwrap();
        (field.number, field.as_u64())
    });
    let numbers: Vec<_> = numbers.filter(|(_, number)| number.is_some()).collect();
    assert_eq!(
        numbers,
        [
            (event::STATE, Some(STARTED)),
            (event::SESSION_ID, Some(1)),
            (event::CONSUMER_UID, Some(1000)),
            (event::NUM_DATA_SOURCES, Some(1)),
        ]
    );
    // They are reported once. The stop times out after two seconds; freeing adds no transition.
    world.run_for(2000);
    world.free(old);
    world.start(new);
    let clone = world.consumer();
    clone_of(&mut world, clone, 2);
    world.free(clone);
    let packets = world.read(own);
    let expected = [
        (2020, DISABLED, "old"),
        (2030, STARTED, ""),
        (2030, CLONED, "own"),
        (2030, DISABLED, "own"),
    ];
    assert_eq!(transitions(&packets, begin), as_owned(&expected));
}

#[test]
fn service_080_only_for_sessions_that_ask() {
    let mut world = World::new();
    let (quiet, other) = (world.consumer(), world.consumer());
    world.enable(quiet, ConfigBuilder::new());
    world.enable(other, named("other"));
    world.free(other);
    let packets = world.read(quiet);
    assert!(packets.iter().all(|p| !p.has(f::CONCURRENT_SESSION_EVENT)));
}

#[test]
fn service_080_a_session_that_is_over_records_no_more() {
    let mut world = World::new();
    let begin = world.now.boottime;
    let (own, other) = (world.consumer(), world.consumer());
    world.enable(own, recording());
    world.disable(own);
    world.enable(other, named("other"));
    let packets = world.read(own);
    assert_eq!(transitions(&packets, begin), []);
}

#[test]
fn service_080_events_are_bounded_and_the_newest_dropped() {
    let mut world = World::new();
    let begin = world.now.boottime;
    let (own, other) = (world.consumer(), world.consumer());
    world.enable(own, recording());
    for _ in 0..2000 {
        world.enable(other, ConfigBuilder::default());
        world.free(other);
    }
    let seen = transitions(&world.read(own), begin);
    assert_eq!(seen.len(), 4096);
    assert_eq!(seen[4095].1, CONFIGURED);
    // The size of long names counts.
    let name = "n".repeat(100_000);
    for _ in 0..10 {
        world.enable(other, named(&name));
        world.free(other);
    }
    assert_eq!(transitions(&world.read(own), begin).len(), 10);
}

#[test]
fn service_080_a_clone_tells_what_its_session_would() {
    let mut world = World::new();
    let begin = world.now.boottime;
    let (own, other) = (world.consumer(), world.consumer());
    world.enable(other, named("other"));
    world.enable(own, recording());
    let clone = world.consumer();
    clone_of(&mut world, clone, 2);
    let seen = transitions(&world.read(clone), begin);
    assert_eq!(seen, [(0, STARTED, "other".to_owned())]);
}
