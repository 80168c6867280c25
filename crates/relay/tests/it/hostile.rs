//! Hostile hosts of a relay, and hostile machines of a host.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ferretto_client::{Address, Consumer, Event};
use ferretto_ipc::host::machine_id;
use ferretto_ipc::machine::Machine;
use ferretto_ipc::socket::Socket;
use ferretto_proto::fields::trace_packet::MACHINE_ID;
use ferretto_testing::client::{LIMIT, next_event, producer_at, texts};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use ferretto_testing::relay::recording::{long_texts, record, recorder};
use ferretto_testing::relay::{TestRelay, World, any_port, machine, number, stream, wait_until};

/// Returns a plain listener as a hostile host, and its address.
fn hostile_host() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    (listener, address.parse().unwrap())
}

/// Returns replies that no host sends.
fn nonsense() -> Vec<Vec<u8>> {
    let noise = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    // An unfinished frame, a too large one, many empty ones, and TLS.
    vec![
        noise.collect(),
        vec![0xff, 0xff, 0, 0, 8, 1],
        vec![0xff; 16],
        vec![0; 400_000],
        vec![0x16, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    ]
}

#[test]
fn a_relay_survives_hosts_that_reply_with_nonsense() {
    let (listener, address) = hostile_host();
    let relay = TestRelay::start(&address, machine("guest"));
    for words in nonsense() {
        // The relay's own connection, or a producer's, which makes the relay reconnect.
        let _producer = stream(&relay.address);
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(&words);
    }
    drop(listener);
    let _world = wait_until(|| World::try_start(&address));
    let mut producer = producer_at(&relay.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    relay.wait_connected();
}

/// Writes until the socket takes no more for a while, and returns the number of bytes.
fn fill(socket: &mut impl std::io::Write) -> usize {
    let bytes = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        match socket.write(&bytes) {
            Ok(count) => total += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return total;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(total < 64 << 20, "buffering is bounded");
    }
}

#[test]
fn a_relay_buffers_little_for_a_host_that_does_not_read() {
    let (listener, address) = hostile_host();
    let relay = TestRelay::start(&address, machine("guest"));
    // The relay's own connection, which gets no reply.
    let _own = listener.accept().unwrap();
    let mut producer = stream(&relay.address);
    let (mut host, _) = listener.accept().unwrap();
    let pause = Some(Duration::from_millis(500));
    producer.set_write_timeout(pause).unwrap();
    host.set_write_timeout(pause).unwrap();
    // Neither the host nor the producer reads.
    fill(&mut host);
    fill(&mut producer);
    // The relay still serves others, and stops without waiting.
    let _other = stream(&relay.address);
    listener.accept().unwrap();
}

/// Connects from an address of this machine.
fn connect_from(from: Ipv4Addr, port: u16) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(socket)
}

#[test]
fn ten_thousand_connections_of_one_machine_do_not_block_others() {
    const CONNECTIONS: usize = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let wanted = 2 * CONNECTIONS as u64 + 1000;
    let raised = Rlimit {
        current: Some(wanted),
        ..limit
    };
    if limit.current.is_some_and(|current| current < wanted)
        && setrlimit(Resource::Nofile, raised).is_err()
    {
        println!("skipped: this process may not open {wanted} files");
        return;
    }
    let world = World::start_at(&any_port());
    let Address::Tcp { port, .. } = &world.remote else {
        panic!()
    };
    // Idle connections, and connections with half a frame.
    let mut held = Vec::new();
    for index in 0..CONNECTIONS {
        let from = Ipv4Addr::new(127, 0, 0, 2);
        let socket = wait_until(|| connect_from(from, *port).ok());
        if index % 2 == 1 {
            let _ = TcpStream::from(socket.try_clone().unwrap()).write_all(&[16, 0, 0, 0, 8]);
        }
        held.push(socket);
    }
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    let mut producer = producer_at(&relay.address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    assert_eq!(held.len(), CONNECTIONS);
}

#[test]
fn relay_009_a_remote_producer_without_an_identity_is_admitted_by_its_address() {
    let ask = |change: fn(&mut ferretto_host::HostOptions)| {
        let world = World::start_with(&ferretto_testing::relay::any_port(), change);
        let mut socket = Socket::connect(&world.remote).unwrap();
        let hello = ferretto_ipc::frame::invoke_method(1, 1, 1, false, 0, |_| {});
        socket.queue(hello, None).unwrap();
        assert!(socket.flush().unwrap());
        ferretto_testing::relay::wait_readable(socket.as_fd());
        let reply = socket.receive(&mut [0; 4096]).unwrap();
        let is_served = matches!(reply, ferretto_ipc::socket::Received::Data { .. });
        let mut consumer = Consumer::connect(&world.consumers, LIMIT).unwrap();
        let state = consumer.query_service_state(LIMIT).unwrap();
        assert_eq!(state.producers.len(), usize::from(is_served), "{reply:?}");
        state.producers.into_iter().next()
    };
    let producer = ask(|_| {}).expect("it is served");
    // Never root, no process and no other machine of this name.
    assert_eq!((producer.uid, producer.pid), (Some(65_534), None));
    assert_eq!(producer.machine_id, None);
    assert_eq!(producer.machine_name.as_deref(), Some(&b"127.0.0.1"[..]));
    assert!(ask(|options| options.require_identity = Some(true)).is_none());
    let name_hosts = |options: &mut ferretto_host::HostOptions| {
        options.allowed_hosts.push("127.0.0.0/8".parse().unwrap());
    };
    assert!(ask(name_hosts).is_none());
    let both = |options: &mut ferretto_host::HostOptions| {
        options.allowed_hosts.push("127.0.0.0/8".parse().unwrap());
        options.require_identity = Some(false);
    };
    assert!(ask(both).is_some());
}

#[test]
fn relay_028_invalid_frames_harm_neither_host_nor_relay() {
    use ferretto_ipc::frame;
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let Address::Tcp { host, port } = &world.remote else {
        panic!()
    };
    let identity = Machine::this();
    let identity_frame = frame::set_peer_identity(&identity.identity(1, 1));
    let oversized = (200_u32 << 10).to_le_bytes().to_vec();
    let unknown_frame = b"\x04\0\0\0\xfa\x3f\x01\x00".to_vec();
    let unknown_method = frame::invoke_method(7, 1, 99, false, 0, |_| {});
    let mut seed = 1u64;
    let noise: Vec<u8> = (0..5000)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .collect();
    for bytes in [
        oversized.clone(),
        noise.clone(),
        [identity_frame.clone(), noise].concat(),
    ] {
        let mut direct = std::net::TcpStream::connect((host.as_str(), *port)).unwrap();
        let _ = direct.write_all(&bytes);
        let mut behind = ferretto_testing::relay::stream(&relay.address);
        let _ = behind.write_all(&bytes);
    }
    // Bad framing ends the connection, also through the relay.
    let mut behind = ferretto_testing::relay::stream(&relay.address);
    behind.write_all(&oversized).unwrap();
    assert_eq!(behind.read(&mut [0; 64]).unwrap_or(0), 0);
    // Unknown requests are answered.
    let mut direct = std::net::TcpStream::connect((host.as_str(), *port)).unwrap();
    direct
        .write_all(&[identity_frame, unknown_frame, unknown_method].concat())
        .unwrap();
    let mut answer = [0; 4];
    direct.read_exact(&mut answer).unwrap();
    let _recorder = recorder(&relay.address, long_texts(5));
    assert_eq!(texts(&record(&world)).len(), 5);
}

#[test]
fn machines_without_permission_are_refused_and_cannot_impersonate_others() {
    let refused = |world: &World, machine: Machine| {
        let relay = TestRelay::start(&world.remote, machine);
        relay.notice(|notice| notice.starts_with("no tracing service"));
    };
    let only = |host: &str| {
        let host = host.parse().unwrap();
        World::start_with(&ferretto_testing::relay::any_port(), |options| {
            options.allowed_hosts = vec![host]
        })
    };
    refused(&only("10.1.2.0/24"), machine("guest"));
    let world = only("127.0.0.0/8");
    refused(&world, machine("host"));
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    let _recorder = recorder(&relay.address, long_texts(3));
    assert_eq!(texts(&record(&world)).len(), 3);
}

#[test]
fn invalid_clocks_of_one_relay_do_not_affect_another() {
    use ferretto_ipc::port::relay::{Port, Request};
    use ferretto_proto::SyncClockRequest;
    use ferretto_proto::sync_clock_request::{Clock, Phase};
    let world = World::start();
    let honest = TestRelay::start(&world.remote, machine("honest"));
    honest.wait_connected();
    let evil = machine("evil");
    let socket = Socket::connect(&world.remote).unwrap();
    let identity = evil.identity(1, 0);
    let mut connection = ferretto_ipc::client::Connection::<Port>::with_identity(socket, &identity);
    while !connection.is_bound() {
        ferretto_testing::relay::wait_readable(connection.as_fd());
        connection.process();
    }
    // Far too many clocks with extreme values.
    for round in 0..200u64 {
        let time = [0, u64::MAX, 1, u64::MAX / 2][round as usize % 4];
        let clock = |id| Clock {
            clock_id: Some(id),
            timestamp: Some(time.wrapping_add(u64::from(id))),
            ..Default::default()
        };
        let request = Request::SyncClock(SyncClockRequest {
            phase: Some([Phase::PING, Phase::UPDATE][round as usize % 2]),
            clocks: (0..500).map(clock).collect(),
            ..Default::default()
        });
        connection.invoke(&request, None, false).unwrap();
        while connection.wants_write() {
            connection.process();
        }
    }
    let _recorder = recorder(&honest.address, long_texts(50));
    let packets = record(&world);
    assert_eq!(texts(&packets).len(), 50);
    // The honest machine's clock is as well known as before.
    let id = Some(u64::from(machine_id(b"id of honest")));
    let of_honest: Vec<_> = packets
        .into_iter()
        .filter(|packet| number(packet, MACHINE_ID) == id)
        .collect();
    let offsets = ferretto_testing::relay::boottime_offsets(&of_honest);
    let best = offsets.iter().map(|offset| offset.unsigned_abs()).min();
    assert!(best < Some(1_000_000_000), "{offsets:?}");
}

#[test]
fn unfinished_frames_and_silent_connections_do_not_block_others() {
    let world = World::start();
    let relay = TestRelay::start(&world.remote, machine("guest"));
    let Address::Tcp { host, port } = &world.remote else {
        panic!()
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.current.unwrap_or(1 << 20).saturating_sub(200) / 16;
    let unfinished = [&[0, 0, 1, 0][..], b"half of it"].concat();
    let waiting: Vec<_> = (0..most.min(300))
        .map(|index| {
            // Directly and through the relay, with half a frame or without data.
            let bytes: &[u8] = if index % 2 == 0 { &unfinished } else { b"" };
            let mut direct = std::net::TcpStream::connect((host.as_str(), *port)).unwrap();
            let _ = direct.write_all(bytes);
            let mut behind = ferretto_testing::relay::stream(&relay.address);
            let _ = behind.write_all(bytes);
            (direct, behind)
        })
        .collect();
    let _recorder = recorder(&relay.address, long_texts(20));
    assert_eq!(texts(&record(&world)).len(), 20);
    drop(waiting);
}

#[test]
fn excess_connections_of_one_machine_are_refused_and_others_served() {
    let world = World::start_with(&ferretto_testing::relay::any_port(), |options| {
        options.limits.connections_per_user = Some(100);
    });
    let relay = TestRelay::start(&world.remote, machine("guest"));
    relay.wait_connected();
    let _recorder = recorder(&relay.address, long_texts(20));
    let Address::Tcp { host, port } = &world.remote else {
        panic!()
    };
    let flood: Vec<_> = (0..1000)
        .filter_map(|_| std::net::TcpStream::connect((host.as_str(), *port)).ok())
        .collect();
    // A machine may use half of all connections. Further ones are closed at once.
    let closed = flood.iter().filter(|stream| {
        let patience = std::time::Duration::from_millis(1);
        stream.set_read_timeout(Some(patience)).unwrap();
        matches!((&mut &**stream).read(&mut [0; 1]), Ok(0))
            || stream.take_error().is_ok_and(|error| error.is_some())
    });
    assert!(closed.count() >= 800);
    assert_eq!(texts(&record(&world)).len(), 20);
}
