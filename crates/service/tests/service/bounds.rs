//! The cost of large and unusual input.

use ferretto_ipc::port::producer::Request;
use ferretto_proto::InitializeConnectionRequest;

use crate::world::{Behaviour, ConfigBuilder, World};

#[test]
fn replies_fit_a_frame_for_names_and_descriptors_of_any_size() {
    let mut world = World::new();
    let name = "n".repeat(4096);
    let producer = world.producer(&name);
    world.register_with(producer, &name, |descriptor| {
        descriptor.id = Some(1);
        descriptor.track_event_descriptor.get_or_insert_default();
        let unknown = ferretto_wire::encode(|e| e.bytes(99_999, &[0; 110_000]));
        let unknown = ferretto_proto::UnknownFields::decode_from_slice(&unknown).unwrap();
        descriptor.unknown_fields = unknown;
    });
    world.register(producer, &"n".repeat(4096 + 1));
    let consumer = world.consumer();
    let state = world.state(consumer);
    assert_eq!(state.data_sources.len(), 1);
    world.enable(consumer, ConfigBuilder::new().source(&name));
    world.call(
        consumer,
        ferretto_ipc::port::consumer::Request::ObserveEvents(
            ferretto_proto::ObserveEventsRequest {
                events_to_observe: vec![
                    ferretto_proto::observable_events::Type::TYPE_DATA_SOURCES_INSTANCES,
                ],
                ..Default::default()
            },
        ),
    );
    let stranger = world.connect_producer(Behaviour::default());
    let request = InitializeConnectionRequest {
        producer_name: Some(vec![b'n'; 4096 + 1]),
        ..Default::default()
    };
    let id = world.produce(stranger, Request::InitializeConnection(request));
    assert!(world.produced(stranger, id).is_none());
}

#[test]
fn a_data_source_config_larger_than_a_frame_is_refused() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("s").with(|c| {
        c.data_sources[0]
            .config
            .get_or_insert_default()
            .legacy_config = Some(vec![b'x'; 131_000]);
    });
    let session = world.enable(consumer, config);
    assert_eq!(
        world.ended(consumer, session).unwrap(),
        "The config of data source \"s\" is too large to be sent to producers"
    );
}

#[test]
fn descriptors_of_one_producer_are_bounded_in_size() {
    let mut world = World::new();
    let producer = world.producer("p");
    for index in 0..300 {
        world.register_with(producer, &format!("s{index}"), |descriptor| {
            let unknown = ferretto_wire::encode(|e| e.bytes(99_999, &[0; 100_000]));
            descriptor.unknown_fields =
                ferretto_proto::UnknownFields::decode_from_slice(&unknown).unwrap();
        });
    }
    let consumer = world.consumer();
    assert_eq!(world.state(consumer).data_sources.len(), 167);
    // Freed quota can be used again.
    for index in 0..10 {
        world.unregister(producer, &format!("s{index}"));
    }
    world.register(producer, "new");
    assert_eq!(world.state(consumer).data_sources.len(), 158);
}

#[test]
fn a_producer_that_fetches_no_commands_is_disconnected() {
    let mut world = World::new();
    let producer = world.producer_with(
        "p",
        Behaviour {
            opens_stream: false,
            ..Default::default()
        },
    );
    world.register(producer, "p");
    let consumer = world.consumer();
    for _ in 0..2000 {
        world.enable(consumer, ConfigBuilder::new().source("p"));
        world.free(consumer);
        if !world.disconnects.is_empty() {
            break;
        }
    }
    assert_eq!(world.disconnects, [producer]);
    assert_eq!(world.sessions(), 0);
}
