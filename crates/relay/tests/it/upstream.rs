//! Upstream's relay with our service, and our relay with upstream's, if upstream's programs are
//! available: `FERRETTO_UPSTREAM=FOLDER cargo test -p ferretto-relay --test upstream`.

use std::sync::mpsc;

use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy};
use ferretto_ipc::host::machine_id;
use ferretto_ipc::machine::Machine;
use ferretto_proto::fields::trace_packet::{MACHINE_ID, REMOTE_CLOCK_SYNC};
use ferretto_testing::client::{
    LIMIT, Recorder, config, next_event, producer_at, texts, unique_address, write_text,
};
use ferretto_wire::Fields;

use ferretto_testing::relay::upstream::Upstream;
use ferretto_testing::relay::{TestRelay, World, machine, number, wait_until};

/// Records a producer at this address, and asserts that the trace has its texts and its machine's
/// clock.
fn records_all(producers: &Address, consumers: &Address, machine: u32) {
    let expected = |index: usize| format!("{index} {}", "x".repeat(index * 7 % 3000)).into_bytes();
    let mut producer = producer_at(producers);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let policy = ExhaustedPolicy::StallThenAbort;
    let recorder = Recorder::start(producer, policy, move |writer| {
        for index in 0..2000 {
            write_text(writer, &expected(index));
        }
    });
    let (sender, receiver) = mpsc::channel();
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    recorder.handle.wake();
    receiver.recv_timeout(LIMIT).unwrap();
    // The clock exchange may not have happened yet.
    let packets = wait_until(|| {
        let mut consumer = Consumer::connect(consumers, LIMIT).unwrap();
        let mut config = config(32 << 10);
        config.trace_all_machines = Some(true);
        consumer.enable_tracing(config, None).unwrap();
        consumer.flush(LIMIT).unwrap();
        consumer.disable_tracing(LIMIT).unwrap();
        let packets = ferretto_testing::relay::read(&mut consumer);
        let of_clocks = packets
            .iter()
            .find(|packet| Fields::find(REMOTE_CLOCK_SYNC, packet).is_some());
        assert_eq!(number(of_clocks?, MACHINE_ID), Some(u64::from(machine)));
        Some(packets)
    });
    let found = texts(&packets);
    assert!(found.into_iter().eq((0..2000).map(expected)));
    for packet in &packets {
        if !texts(std::slice::from_ref(packet)).is_empty() {
            assert_eq!(number(packet, MACHINE_ID), Some(u64::from(machine)));
        }
    }
    let best = ferretto_testing::relay::boottime_offsets(&packets);
    let best = best.iter().map(|offset| offset.unsigned_abs()).min();
    assert!(best < Some(1_000_000_000), "{best:?}");
}

#[test]
fn upstreams_relay_serves_our_service() {
    let world = World::start();
    let listen = unique_address("upstream-relay");
    let variables = [
        ("PERFETTO_RELAY_SOCK_NAME", world.remote.to_string()),
        ("PERFETTO_PRODUCER_SOCK_NAME", listen.to_string()),
    ];
    let Some(_relay) = Upstream::start("traced_relay", &[], &variables) else {
        return;
    };
    let id = machine_id(&Machine::this().id_hint);
    records_all(&listen, &world.consumers, id);
}

#[test]
fn our_relay_serves_upstreams_service() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let remote: Address = format!("127.0.0.1:{port}").parse().unwrap();
    let consumers = unique_address("upstream-consumer");
    let variables = [
        ("PERFETTO_PRODUCER_SOCK_NAME", remote.to_string()),
        ("PERFETTO_CONSUMER_SOCK_NAME", consumers.to_string()),
    ];
    let Some(_service) = Upstream::start("traced", &["--enable-relay-endpoint"], &variables) else {
        return;
    };
    let relay = TestRelay::start(&remote, machine("guest"));
    let id = machine_id(b"id of guest");
    records_all(&relay.address, &consumers, id);
}
