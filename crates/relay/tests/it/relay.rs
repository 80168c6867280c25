//! A relay between real producers and a real service, or a service played by the test.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::mpsc;

use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy};
use ferretto_format::machine_clock::{STATED, STATED_ERROR, STATED_OFFSET};
use ferretto_ipc::frame::{Frame, Message};
use ferretto_ipc::host::machine_id;
use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::Socket;
use ferretto_proto::Message as _;
use ferretto_proto::fields::trace_packet::{
    MACHINE_ID, REMOTE_CLOCK_SYNC, SYSTEM_INFO, TRUSTED_PID, TRUSTED_UID,
};
use ferretto_testing::client::{
    LIMIT, Recorder, config, next_event, producer_at, texts, unique_address, write_text,
};
use ferretto_wire::Fields;

use ferretto_testing::relay::recording::{all_machines, long_texts, record, recorder, synced};
use ferretto_testing::relay::{TestRelay, World, machine, number, wait_until};

#[test]
fn relay_016_relay_018_data_through_a_relay_is_complete_and_in_order() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let expected = long_texts(3000);
    let _recorder = recorder(&relay.address, expected.clone());
    let packets = record(&world);
    let found = texts(&packets);
    assert_eq!(found.len(), 3000);
    assert!(found.into_iter().eq(expected));
    let id = u64::from(machine_id(b"id of guest"));
    for packet in packets
        .iter()
        .filter(|packet| !texts(std::slice::from_ref(packet)).is_empty())
    {
        assert_eq!(number(packet, MACHINE_ID), Some(id));
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(number(packet, TRUSTED_UID), Some(u64::from(user)));
        let pid = u64::from(std::process::id());
        assert_eq!(number(packet, TRUSTED_PID), Some(pid));
    }
    // The service's own packets carry no machine id.
    let clocks = ferretto_proto::fields::trace_packet::CLOCK_SNAPSHOT;
    let own = packets.iter().find(|p| Fields::find(clocks, p).is_some());
    assert_eq!(number(own.unwrap(), MACHINE_ID), None);
}

#[test]
fn relay_013_the_trace_describes_the_relays_machine_and_clocks() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    let packets = wait_until(|| {
        let packets = record(&world);
        let has = |field| packets.iter().any(|p| Fields::find(field, p).is_some());
        (has(REMOTE_CLOCK_SYNC)).then_some(packets)
    });
    let id = Some(u64::from(machine_id(b"id of guest")));
    let about = |field| {
        packets
            .iter()
            .filter(move |p| Fields::find(field, p).is_some() && number(p, MACHINE_ID) == id)
    };
    assert!(about(REMOTE_CLOCK_SYNC).count() >= 1);
    assert_eq!(about(SYSTEM_INFO).count(), 1);
    // Both machines are this one, so their clocks are equal but for the error of the exchange.
    let offsets = ferretto_testing::relay::boottime_offsets(&packets);
    assert!(!offsets.is_empty());
    let best = offsets.iter().map(|offset| offset.unsigned_abs()).min();
    assert!(best < Some(1_000_000_000), "{offsets:?}");
}

#[test]
fn a_remote_producer_without_a_relay_describes_its_machine_and_clock() {
    let world = World::start();
    let _recorder = recorder(&world.remote, long_texts(10));
    let machine = Machine::this();
    let id = u64::from(machine_id(&machine.id_hint));
    // Clocks are compared over a second connection.
    let packets = wait_until(|| {
        let packets = record(&world);
        let has = |field| packets.iter().any(|p| Fields::find(field, p).is_some());
        has(REMOTE_CLOCK_SYNC).then_some(packets)
    });
    assert_eq!(texts(&packets).len(), 10);
    for packet in &packets {
        let of_machine = Fields::find(REMOTE_CLOCK_SYNC, packet).is_some()
            || !texts(std::slice::from_ref(packet)).is_empty();
        if of_machine {
            assert_eq!(number(packet, MACHINE_ID), Some(id));
        }
    }
    let described = packets.iter().filter(|packet| {
        let info = Fields::find(SYSTEM_INFO, packet).and_then(|field| field.as_bytes());
        number(packet, MACHINE_ID) == Some(id)
            && info.is_some_and(|info| {
                let info = ferretto_proto::SystemInfo::decode_from_slice(info).unwrap();
                info.machine_name == Some(machine.name.clone())
            })
    });
    assert_eq!(described.count(), 1);
    // Both clocks are the same, so the offset is within the error.
    let syncs = packets.iter().filter_map(|packet| {
        let sync = Fields::find(REMOTE_CLOCK_SYNC, packet)?.as_bytes()?;
        Fields::find(STATED, sync)?.as_bytes()
    });
    for stated in syncs {
        let number = |field| Fields::find(field, stated).and_then(|field| field.as_u64());
        let offset = number(STATED_OFFSET).unwrap_or(0) as i64;
        let error = number(STATED_ERROR).unwrap_or(0);
        assert!(offset.unsigned_abs() <= error, "{offset} {error}");
    }
}

#[test]
fn lost_data_is_reported_for_its_machine_alone() {
    use ferretto_proto::fields::trace_packet::PREVIOUS_PACKET_DROPPED;
    let world = World::start();
    let lossy = TestRelay::start(&world.remote, machine("lossy"));
    let whole = TestRelay::start(&world.remote, machine("whole"));
    let _whole = recorder(&whole.address, long_texts(100));
    let mut producer = producer_at(&lossy.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    // The service has the data source before the session starts.
    let (sender, registered) = mpsc::channel();
    assert!(producer.handle().sync(move || sender.send(()).unwrap()));
    while registered.try_recv().is_err() {
        producer.process(std::time::Instant::now());
        producer.wait(Some(std::time::Duration::from_millis(5)));
    }
    let (is_over, over) = mpsc::channel();
    let recording = std::thread::spawn(move || {
        let handle = producer.handle();
        let is_start = |event: &Event| matches!(event, Event::Start { .. });
        let Event::Start { instance, config } = next_event(&mut producer, is_start) else {
            unreachable!()
        };
        // Writes more than the connection takes, until data is dropped.
        let target = config.target_buffer.unwrap_or(0);
        let mut writer = handle.create_writer(target, ExhaustedPolicy::Drop);
        while writer.drop_count() == 0 {
            write_text(&mut writer, &[b'x'; 20_000]);
        }
        let begin = std::time::Instant::now();
        while writer.is_dropping() && begin.elapsed() < LIMIT {
            producer.process(std::time::Instant::now());
            write_text(&mut writer, b"afterwards");
        }
        writer.flush(None);
        handle.notify_started(instance);
        // The recorder replies to all requests until the test ends.
        while over.try_recv().is_err() {
            producer.process(std::time::Instant::now());
            while let Some(event) = producer.poll_event() {
                match event {
                    Event::Flush { request_id, .. } => handle.flush_done(request_id),
                    Event::Stop { instance } => handle.notify_stopped(instance),
                    _ => {}
                }
            }
            producer.wait(Some(std::time::Duration::from_millis(5)));
        }
    });
    let packets = record(&world);
    is_over.send(()).unwrap();
    recording.join().unwrap();
    let id = |name: &str| u64::from(machine_id(name.as_bytes()));
    // For each machine: the texts, and the gaps after its first packet.
    let of = |machine: u64| {
        let packets = packets.iter().filter(move |packet| {
            number(packet, MACHINE_ID) == Some(machine)
                && !texts(std::slice::from_ref(packet)).is_empty()
        });
        let gaps = packets
            .clone()
            .skip(1)
            .filter(|packet| number(packet, PREVIOUS_PACKET_DROPPED).is_some());
        (packets.count(), gaps.count())
    };
    assert_eq!(of(id("id of whole")), (100, 0));
    let (_, gaps) = of(id("id of lossy"));
    assert!(gaps > 0);
}

#[test]
fn ipc_069_relay_004_relay_005_the_host_gets_the_identity_and_then_the_producers_bytes() {
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.local_addr().unwrap().port(),
    };
    let relay = TestRelay::start(&address, Machine::this());
    let mut producer = ferretto_testing::relay::stream(&relay.address);
    // Bytes that are not a frame, in odd pieces.
    let sent: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
    let sending = sent.clone();
    let sender = std::thread::spawn(move || {
        for piece in sending.chunks(7777) {
            producer.write_all(piece).unwrap();
        }
        producer.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        producer.read_to_end(&mut answer).unwrap();
        answer
    });
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (mut stream, _) = host.accept().unwrap();
        let mut header = [0; 4];
        stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(header) as usize];
        stream.read_exact(&mut payload).unwrap();
        let frame = Frame::decode(&payload).unwrap();
        assert_eq!(frame.request_id, 0);
        let Message::SetPeerIdentity(identity) = frame.message else {
            panic!("{frame:?}")
        };
        let boot_id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(identity.machine_id_hint, boot_id.trim_ascii());
        assert_eq!(identity.pid, std::process::id() as i32);
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(identity.uid, user as i32);
        // The relay's own connection continues with a request, the producer's with its bytes.
        let mut next = [0; 4];
        stream.read_exact(&mut next).unwrap();
        if next == sent[..4] {
            let mut received = next.to_vec();
            stream.read_to_end(&mut received).unwrap();
            assert!(received == sent);
            stream.write_all(b"the answer").unwrap();
            seen.push("producer");
        } else {
            seen.push("relay");
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, ["producer", "relay"]);
    assert_eq!(sender.join().unwrap(), b"the answer");
}

#[test]
fn ipc_072_only_a_producer_that_passes_a_descriptor_is_disconnected() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let recorder = recorder(&relay.address, long_texts(10));
    let mut passing = Socket::connect(&relay.address).unwrap();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let frame = ferretto_ipc::frame::bind_service(1, "ProducerPort");
    passing.queue(frame, Some(reader)).unwrap();
    assert!(passing.flush().unwrap());
    ferretto_testing::relay::wait_readable(passing.as_fd());
    let end = passing.receive(&mut [0; 64]);
    let is_closed = matches!(end, Ok(ferretto_ipc::socket::Received::Closed) | Err(_));
    assert!(is_closed, "{end:?}");
    let notice = relay.notice(|notice| notice.contains("descriptor"));
    assert!(notice.contains("process"), "{notice}");
    synced(&recorder);
    assert_eq!(texts(&record(&world)).len(), 10);
}

#[test]
fn relay_025_a_stopped_relay_delivers_its_data_and_the_session_ends_cleanly() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let _recorder = recorder(&relay.address, long_texts(500));
    let mut consumer = Consumer::connect(&world.consumers, LIMIT).unwrap();
    consumer.enable_tracing(all_machines(), None).unwrap();
    consumer.flush(LIMIT).unwrap();
    drop(relay);
    consumer.disable_tracing(LIMIT).unwrap();
    assert_eq!(
        texts(&ferretto_testing::relay::read(&mut consumer)).len(),
        500
    );
}

#[test]
fn relay_026_a_relay_reconnects_to_a_restarted_host() {
    let world = World::start();
    let remote = world.remote.clone();
    let relay = TestRelay::start(&remote, machine("guest"));
    let mut producer = producer_at(&relay.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    drop(world);
    next_event(&mut producer, |event| {
        matches!(event, Event::Disconnected(_))
    });
    let world = World::start_at(&remote);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let recorder = Recorder::start(producer, ExhaustedPolicy::StallThenAbort, |writer| {
        write_text(writer, b"again");
    });
    synced(&recorder);
    assert_eq!(texts(&record(&world)), [b"again"]);
}

#[test]
fn relay_029_a_thousand_idle_connections_do_not_block_a_recording_one() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    // As many as this process may open: each takes three descriptors here.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.current.unwrap_or(1 << 20).saturating_sub(200) / 16;
    let idle: Vec<_> = (0..most.min(1000))
        .map(|_| ferretto_testing::relay::stream(&relay.address))
        .collect();
    let _recorder = recorder(&relay.address, long_texts(20));
    assert_eq!(texts(&record(&world)).len(), 20);
    drop(idle);
}

#[test]
fn a_new_producer_makes_the_relay_reconnect_at_once() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let remote = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    let relay = TestRelay::start(&remote, machine("guest"));
    relay.notice(|notice| notice.contains("no tracing service"));
    let world = World::start_at(&remote);
    let mut producer = producer_at(&relay.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    relay.wait_connected();
    drop(world);
}

#[test]
fn the_socket_file_is_removed_with_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("producer.sock");
    let relay = TestRelay::start_at(
        Address::Path(path.clone()),
        &unique_address("nobody"),
        machine("guest"),
    );
    assert!(path.exists());
    drop(relay);
    assert!(!path.exists());
}

#[test]
fn relay_003_each_form_of_endpoint_listens_and_connects() {
    let folder = tempfile::tempdir().unwrap();
    let tcp = |host: &str| Address::Tcp {
        host: host.to_owned(),
        port: 0,
    };
    let path = |name: &str| Address::Path(folder.path().join(name));
    let hosts = [
        path("host.sock"),
        unique_address("host"),
        tcp("127.0.0.1"),
        tcp("localhost"),
        tcp("::1"),
        Address::Vsock {
            cid: 1,
            port: 20_000 + std::process::id() % 10_000,
        },
    ];
    for (index, host) in hosts.iter().enumerate() {
        let Some(world) = World::try_start(host) else {
            println!("skipped: cannot listen at {host}");
            continue;
        };
        let listen = match index % 2 {
            0 => path(&format!("relay{index}.sock")),
            _ => unique_address("relay"),
        };
        let relay = TestRelay::start_at(listen, &world.remote, machine("guest"));
        relay.wait_connected();
        // Over a local socket the host knows the relay's user and must not share memory.
        if !host.is_unix() {
            let _recorder = recorder(&relay.address, long_texts(3));
            assert_eq!(texts(&record(&world)).len(), 3, "{host}");
        }
    }
}

#[test]
fn relay_030_machines_with_one_name_are_both_recorded_and_one_hint_is_one_machine() {
    let world = World::start();
    let same_name = |id: &str| Machine {
        id_hint: id.into(),
        name: b"twin".to_vec(),
    };
    let machines = [same_name("a"), same_name("b"), same_name("b")];
    let relays = machines.map(|machine| TestRelay::start(&world.remote, machine));
    let texts_of = |index| vec![format!("from {index}").into_bytes()];
    let _recorders: Vec<_> = relays
        .iter()
        .enumerate()
        .map(|(index, relay)| recorder(&relay.address, texts_of(index)))
        .collect();
    let mut consumer = Consumer::connect(&world.consumers, LIMIT).unwrap();
    let mut config = config(1024);
    config.trace_all_machines = None;
    config.data_sources[0].machine_name_filter = vec![b"twin".to_vec()];
    consumer.enable_tracing(config, None).unwrap();
    consumer.flush(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    let packets = ferretto_testing::relay::read(&mut consumer);
    let mut found: Vec<_> = packets
        .iter()
        .filter_map(|packet| {
            let text = texts(std::slice::from_ref(packet)).pop()?;
            Some((text, number(packet, MACHINE_ID)?))
        })
        .collect();
    found.sort();
    let id = |hint: &[u8]| u64::from(machine_id(hint));
    let expected = [id(b"a"), id(b"b"), id(b"b")];
    let expected: Vec<_> = (0..3)
        .map(|index| (format!("from {index}").into_bytes(), expected[index]))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_producer_that_offers_shared_memory_is_recorded_without_it() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let mut producer = ferretto_client::Producer::new(ferretto_client::ProducerOptions {
        name: "offers".to_owned(),
        address: Some(relay.address.clone()),
        provide_memory: true,
        ..Default::default()
    })
    .unwrap();
    producer.register(ferretto_testing::client::descriptor("test.source"));
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let recorder = Recorder::start(producer, ExhaustedPolicy::StallThenAbort, |writer| {
        write_text(writer, b"without memory");
    });
    synced(&recorder);
    assert_eq!(texts(&record(&world)), [b"without memory"]);
}
