//! Plain recordings, from the config to the packets.

use crate::world::{ConfigBuilder, World};
use ferretto_proto::fields::trace_packet as f;

fn texts(packets: &[crate::world::Packet]) -> Vec<String> {
    let data = packets.iter().filter(|packet| packet.is_data());
    data.map(|p| String::from_utf8(p.bytes(900).unwrap().to_vec()).unwrap())
        .collect()
}

#[test]
fn a_recording_from_config_to_packets() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p"));
    assert_eq!(world.commands(producer), ["tracing", "setup", "start"]);
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["one", "two"]);
    world.run_for(5000);
    assert_eq!(world.ended(consumer, session), None);
    world.disable(consumer);
    assert_eq!(world.ended(consumer, session).as_deref(), Some(""));
    assert_eq!(
        world.commands(producer),
        ["tracing", "setup", "start", "stop"]
    );
    let packets = world.read(consumer);
    assert_eq!(texts(&packets), ["one", "two"]);
    let data = packets.iter().find(|p| p.is_data()).unwrap();
    assert_eq!(data.int(f::TRUSTED_UID), Some(2000));
    assert_eq!(data.int(f::TRUSTED_PID), Some(4321));
    assert_eq!(data.sequence(), 2);
    world.free(consumer);
    assert_eq!(world.sessions(), 0);
}
