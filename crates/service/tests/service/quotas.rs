//! Limits on the state that producers can make the service keep, per producer and per user.

use ferretto_ipc::port::producer::{Reply, Request};
use ferretto_proto::trace_config::{TriggerConfig, trigger_config::Trigger};
use ferretto_proto::{
    ActivateTriggersRequest, DataSourceDescriptor, RegisterDataSourceRequest,
    UpdateDataSourceRequest,
};
use ferretto_service::{ClientId, Quotas, ServiceOptions};

use crate::world::{Behaviour, ConfigBuilder, Producer, TEST_FIELD, World};

fn world(change: impl FnOnce(&mut Quotas)) -> World {
    let mut options = ServiceOptions::default();
    change(&mut options.quotas);
    World::with(options)
}

fn producer_of(world: &mut World, uid: u32) -> ClientId {
    let behaviour = Behaviour {
        uid,
        ..Default::default()
    };
    world.producer_with("p", behaviour)
}

fn descriptor(id: u64, size: usize) -> DataSourceDescriptor {
    let unknown = ferretto_wire::encode(|e| e.bytes(99_999, &vec![0; size]));
    let unknown = ferretto_proto::UnknownFields::decode_from_slice(&unknown).unwrap();
    DataSourceDescriptor {
        name: Some(b"s".to_vec()),
        id: Some(id),
        unknown_fields: unknown,
        ..Default::default()
    }
}

/// Registers a data source; returns the error if it was refused.
fn offer(world: &mut World, producer: ClientId, id: u64, size: usize) -> Option<String> {
    let request = Request::RegisterDataSource(RegisterDataSourceRequest {
        data_source_descriptor: descriptor(id, size).into(),
        ..Default::default()
    });
    let id = world.produce(producer, request);
    match world.produced(producer, id) {
        Some(Reply::RegisterDataSource(reply)) => {
            let error = reply.error.clone()?;
            Some(String::from_utf8(error).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_data_sources_of_one_producer_are_limited() {
    let mut world = world(|quotas| quotas.data_sources_per_producer = 2);
    let producer = producer_of(&mut world, 1);
    assert_eq!(offer(&mut world, producer, 1, 0), None);
    assert_eq!(offer(&mut world, producer, 2, 0), None);
    assert_eq!(
        offer(&mut world, producer, 3, 0).unwrap(),
        "one producer may offer 2 data sources"
    );
    let other = producer_of(&mut world, 1);
    assert_eq!(offer(&mut world, other, 3, 0), None);
    // An unregistered data source frees its share.
    world.unregister(producer, "s");
    assert_eq!(offer(&mut world, producer, 3, 0), None);
}

#[test]
fn the_data_sources_of_all_producers_of_a_user_are_limited() {
    let mut world = world(|quotas| quotas.data_sources_per_user = 2);
    let [first, second, foreign] = [1, 1, 2].map(|uid| producer_of(&mut world, uid));
    assert_eq!(offer(&mut world, first, 1, 0), None);
    assert_eq!(offer(&mut world, second, 1, 0), None);
    assert_eq!(
        offer(&mut world, second, 2, 0).unwrap(),
        "all producers of one user may offer 2 data sources"
    );
    assert_eq!(offer(&mut world, foreign, 1, 0), None);
    world.disconnect(first);
    assert_eq!(offer(&mut world, second, 2, 0), None);
}

#[test]
fn the_descriptors_of_one_producer_and_of_a_user_are_limited() {
    let mut world = world(|quotas| {
        quotas.descriptor_bytes_per_producer = 3000;
        quotas.descriptor_bytes_per_user = 4000;
    });
    let [first, second] = [1, 1].map(|uid| producer_of(&mut world, uid));
    assert_eq!(offer(&mut world, first, 1, 2500), None);
    assert_eq!(
        offer(&mut world, first, 2, 1000).unwrap(),
        "data source descriptors of one producer may have 3000 bytes"
    );
    assert_eq!(
        offer(&mut world, second, 1, 2500).unwrap(),
        "data source descriptors of all producers of one user may have 4000 bytes"
    );
    assert_eq!(offer(&mut world, second, 1, 1000), None);
    // Only the growth of a descriptor counts.
    let mut update = |producer, size| {
        let request = Request::UpdateDataSource(UpdateDataSourceRequest {
            data_source_descriptor: descriptor(1, size).into(),
            ..Default::default()
        });
        let id = world.produce(producer, request);
        world.produced(producer, id).is_some()
    };
    assert!(!update(second, 2000));
    assert!(!update(first, 3500));
    assert!(update(first, 100));
    assert!(update(second, 2000));
}

#[test]
fn the_shared_memory_of_a_user_is_limited() {
    let mut world = world(|quotas| quotas.shared_memory_per_user = 3 << 20);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("s"));
    let producer = |world: &mut World, uid: u32, brings: Option<usize>| {
        let behaviour = Behaviour {
            uid,
            size_hint: 2 << 20,
            page_hint: 4096,
            brings,
            ..Default::default()
        };
        let producer = world.producer_with("p", behaviour);
        world.register(producer, "s");
        producer
    };
    let size = |world: &World, producer| {
        let producer: &Producer = &world.producers[&producer];
        let brought = producer.initialized.as_ref().unwrap();
        let adopted = brought.using_shmem_provided_by_producer == Some(true);
        (adopted, producer.region.as_ref().unwrap().size())
    };
    let first = producer(&mut world, 1, None);
    assert_eq!(size(&world, first), (false, 2 << 20));
    let second = producer(&mut world, 1, None);
    assert_eq!(size(&world, second), (false, 256 << 10));
    let brings = producer(&mut world, 1, Some(1 << 20));
    assert_eq!(size(&world, brings), (false, 256 << 10));
    let foreign = producer(&mut world, 2, Some(2 << 20));
    assert_eq!(size(&world, foreign), (true, 2 << 20));
    world.disconnect(first);
    let third = producer(&mut world, 1, Some(2 << 20));
    assert_eq!(size(&world, third), (true, 2 << 20));
}

#[test]
fn too_long_names_are_refused_with_an_error() {
    let mut world = world(|_| {});
    let producer = producer_of(&mut world, 1);
    let request = Request::RegisterDataSource(RegisterDataSourceRequest {
        data_source_descriptor: DataSourceDescriptor {
            name: Some(vec![b'n'; 20_000]),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    });
    let id = world.produce(producer, request);
    let Some(Reply::RegisterDataSource(reply)) = world.produced(producer, id) else {
        panic!()
    };
    assert_eq!(
        reply.error.as_deref().unwrap(),
        b"names of data sources may have 4096 bytes, this one has 20000"
    );
}

#[test]
fn the_triggers_of_a_user_in_24_hours_are_limited() {
    let mut world = world(|quotas| quotas.triggers_per_user = 3);
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|c| {
        let triggers = ["t", "u"].map(|name| Trigger {
            name: Some(name.into()),
            ..Default::default()
        });
        c.trigger_config = TriggerConfig {
            triggers: triggers.into(),
            ..Default::default()
        }
        .into();
    });
    world.enable(consumer, config);
    let [first, second, foreign] = [1, 1, 2].map(|uid| producer_of(&mut world, uid));
    let activate = |world: &mut World, producer, names: &[&str]| {
        let request = Request::ActivateTriggers(ActivateTriggersRequest {
            trigger_names: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
            ..Default::default()
        });
        let id = world.produce(producer, request);
        world.produced(producer, id).is_some()
    };
    // Names without a session are free.
    assert!(activate(&mut world, first, &["x"; 10]));
    assert!(activate(&mut world, first, &["t", "u"]));
    assert!(
        !activate(&mut world, second, &["t", "u"]),
        "the last one exceeds the limit"
    );
    assert!(!activate(&mut world, first, &["t"]));
    assert!(activate(&mut world, foreign, &["t"]));
    let received = |world: &mut World| {
        let packets = world.read(consumer);
        let trigger = ferretto_proto::fields::trace_packet::TRIGGER;
        packets.iter().filter(|packet| packet.has(trigger)).count()
    };
    assert_eq!(received(&mut world), 4);
    world.run_for(24 * 3600 * 1000 + 1);
    assert!(activate(&mut world, first, &["t"]));
    assert_eq!(received(&mut world), 1);
}

#[test]
fn the_number_of_unfetched_commands_is_limited() {
    let mut world = world(|quotas| quotas.pending_commands = 4);
    let behaviour = Behaviour {
        opens_stream: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "s");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("s"));
    world.free(consumer);
    assert_eq!(world.disconnects, []);
    world.enable(consumer, ConfigBuilder::new().source("s"));
    assert_eq!(world.disconnects, [producer]);
}

#[test]
fn the_size_of_unfetched_commands_is_limited() {
    let mut world = world(|quotas| quotas.pending_command_bytes = 100_000);
    let behaviour = Behaviour {
        opens_stream: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    world.register(producer, "s");
    let consumer = world.consumer();
    let config = |size| {
        ConfigBuilder::new().source("s").with(|c| {
            let source = c.data_sources[0].config.get_or_insert_default();
            source.legacy_config = Some(vec![b'x'; size]);
        })
    };
    // It is sent twice: with the setup and with the start.
    world.enable(consumer, config(40_000));
    assert_eq!(world.disconnects, []);
    world.free(consumer);
    world.enable(consumer, config(40_000));
    assert_eq!(world.disconnects, [producer]);
}

#[test]
fn producers_on_other_machines_count_as_one_user() {
    let mut world = world(|quotas| quotas.data_sources_per_user = 1);
    let remote = |world: &mut World, uid, machine_id| {
        let behaviour = Behaviour {
            uid,
            machine_id,
            shares_memory: false,
            ..Default::default()
        };
        world.producer_with("p", behaviour)
    };
    let first = remote(&mut world, 1, 7);
    let second = remote(&mut world, 2, 8);
    let local = producer_of(&mut world, 1);
    assert_eq!(offer(&mut world, first, 1, 0), None);
    assert!(offer(&mut world, second, 1, 0).is_some());
    assert_eq!(offer(&mut world, local, 1, 0), None);
}

/// Returns a recording producer of this user.
fn recording_producer_of(world: &mut World, uid: u32) -> ClientId {
    let producer = producer_of(world, uid);
    world.register(producer, "s");
    producer
}

#[test]
fn sequence_ids_of_a_reconnecting_user_are_limited() {
    const LIMIT: usize = 20;
    let mut world = world(|quotas| quotas.sequences_per_user = LIMIT);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("s"));
    let honest = recording_producer_of(&mut world, 1);
    let mut kept = world.writer(honest);
    let old = recording_producer_of(&mut world, 2);
    let mut forgotten = world.writer(old);
    world.write(honest, &mut kept, &["x"]);
    world.write(old, &mut forgotten, &["x"]);
    let data = |packets: Vec<crate::world::Packet>| -> Vec<(u64, u64)> {
        let data = packets.iter().filter(|packet| packet.has(TEST_FIELD));
        data.map(|packet| (packet.sequence(), packet.loss()))
            .collect()
    };
    let first = data(world.read(consumer));
    let [(of_kept, _), (of_forgotten, _)] = first[..] else {
        panic!("{first:?}");
    };
    let mut seen = vec![of_kept, of_forgotten];
    for _ in 0..20 {
        let producer = recording_producer_of(&mut world, 2);
        for _ in 0..5 {
            let mut writer = world.writer(producer);
            world.write(producer, &mut writer, &["x"]);
        }
        seen.extend(data(world.read(consumer)).iter().map(|(id, _)| id));
        world.disconnect(producer);
        assert!(world.service.inventory().sequences <= 1 + LIMIT);
    }
    // No id was assigned twice.
    let count = seen.len();
    assert_eq!(count, 102);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
    // Another user's ids are unchanged; the forgotten writer has a new one, which is unknown to
    // readers.
    world.write(honest, &mut kept, &["x"]);
    world.write(old, &mut forgotten, &["x"]);
    let last = data(world.read(consumer));
    let [(again, 0), (renewed, loss)] = last[..] else {
        panic!("{last:?}");
    };
    assert_eq!(again, of_kept);
    assert!(!seen.contains(&renewed));
    assert_ne!(loss, 0);
}
