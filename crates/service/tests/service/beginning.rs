//! The packets every trace begins with.

use ferretto_proto::fields::{clock_snapshot, trace_packet as f};
use ferretto_proto::{Message, SystemInfo};
use ferretto_service::{ExtensionDescriptor, ServiceOptions};
use ferretto_wire::Fields;

use crate::world::{ConfigBuilder, MS, Packet, World};

fn kinds(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(Packet::kind).collect()
}

/// Returns the clock ids and readings of a snapshot.
fn clocks(packet: &Packet) -> Vec<(u64, u64)> {
    let snapshot = packet.bytes(f::CLOCK_SNAPSHOT).unwrap();
    let fields = Fields::new(snapshot).map(Result::unwrap);
    fields
        .filter(|field| field.number == clock_snapshot::CLOCKS)
        .map(|field| {
            let mut reading = Fields::new(field.as_bytes().unwrap()).map(Result::unwrap);
            let mut next = || reading.next().unwrap().as_u64().unwrap();
            (next(), next())
        })
        .collect()
}

#[test]
fn service_049_extension_descriptors_follow_the_uuid() {
    let descriptor = |name: &str, size, gzipped| ExtensionDescriptor {
        name: name.to_owned(),
        bytes: vec![b'd'; size],
        gzipped,
    };
    let options = ServiceOptions {
        extension_descriptors: vec![
            descriptor("/etc/d.gz", 200_000, true),
            descriptor("", 4, false),
        ],
        ..ServiceOptions::default()
    };
    let mut world = World::with(options);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let packets = world.read(consumer);
    let kinds = kinds(&packets);
    let uuid = kinds
        .iter()
        .position(|kind| *kind == f::TRACE_UUID)
        .unwrap();
    let expected = [
        f::EXTENSION_DESCRIPTOR,
        f::EXTENSION_DESCRIPTOR,
        f::TRACE_PROVENANCE,
    ];
    assert_eq!(kinds[uuid + 1..uuid + 4], expected);
    assert_eq!(packets[uuid + 1].sequence(), 1);
    let fields = |packet: &Packet| {
        let message = packet.bytes(f::EXTENSION_DESCRIPTOR).unwrap().to_vec();
        let fields = Fields::new(&message).map(Result::unwrap);
        let lengths = fields.map(|field| (field.number, field.as_bytes().unwrap().len()));
        lengths.collect::<Vec<_>>()
    };
    assert_eq!(fields(&packets[uuid + 1]), [(2, 200_000), (3, 9)]);
    assert_eq!(fields(&packets[uuid + 2]), [(1, 4)]);
    // They are written once per trace.
    world.run_for(20_000);
    let later = world.read(consumer);
    assert!(
        later
            .iter()
            .all(|packet| !packet.has(f::EXTENSION_DESCRIPTOR))
    );
}

#[test]
fn service_050_extension_descriptors_can_be_refused() {
    let options = ServiceOptions {
        extension_descriptors: vec![ExtensionDescriptor {
            name: String::new(),
            bytes: vec![1],
            gzipped: false,
        }],
        ..ServiceOptions::default()
    };
    let mut world = World::with(options);
    let consumer = world.consumer();
    let config = ConfigBuilder::new().with(|c| {
        let builtin = c.builtin_data_sources.get_or_insert_default();
        builtin.disable_extension_descriptors = Some(true);
    });
    world.enable(consumer, config);
    let packets = world.read(consumer);
    assert!(
        packets
            .iter()
            .all(|packet| !packet.has(f::EXTENSION_DESCRIPTOR))
    );
    assert!(packets.iter().any(|packet| packet.has(f::TRACE_UUID)));
}

#[test]
fn the_time_stamp_counter_is_the_last_clock_and_its_drift_is_ignored() {
    let mut world = World::new();
    world.now.tsc = Some(77);
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let snapshot = |packets: &[Packet]| {
        let found = packets.iter().find(|packet| packet.has(f::CLOCK_SNAPSHOT));
        found.map(clocks)
    };
    let first = snapshot(&world.read(consumer)).unwrap();
    let ids: Vec<_> = first.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [6, 2, 4, 1, 3, 5, 9]);
    assert_eq!(first[6], (9, 77));
    assert_eq!(first[0], (6, 1_000_000 * MS));
    // The read takes a new snapshot, and only a different one is kept besides it.
    for _ in 0..3 {
        world.now.tsc = world.now.tsc.map(|cycles| cycles + (1 << 40));
        world.run_for(10_000);
    }
    let packets = world.read(consumer);
    let kept = packets
        .iter()
        .filter(|packet| packet.has(f::CLOCK_SNAPSHOT));
    assert_eq!(kept.count(), 1);
}

#[test]
fn the_time_zone_is_the_current_one() {
    let options = ServiceOptions {
        utc_offset_minutes: Some(|realtime| Some((realtime / 1_000_000_000 % 1000) as i32 - 500)),
        ..ServiceOptions::default()
    };
    let mut world = World::with(options);
    let mut offset_after = |ms| {
        world.run_for(ms);
        let consumer = world.consumer();
        world.enable(consumer, ConfigBuilder::new());
        let packets = world.read(consumer);
        let info = packets
            .iter()
            .find_map(|packet| packet.bytes(f::SYSTEM_INFO));
        let info = SystemInfo::decode_from_slice(info.unwrap()).unwrap();
        info.timezone_off_mins.unwrap()
    };
    let first = offset_after(0);
    assert_eq!(offset_after(60_000), first + 60);
}
