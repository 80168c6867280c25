//! Hosts that mean harm to a relay, and machines that mean harm to a host.

#[path = "../../client/tests/common/mod.rs"]
#[allow(unused)]
mod common;
mod world;

use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use common::{next_event, producer_at};
use ferretto_client::{Address, Event};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use world::{TestRelay, World, any_port, machine, stream, wait_until};

/// An address where nothing of ours listens yet.
fn hostile_host() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    (listener, address.parse().unwrap())
}

/// Words of a host that are no answers.
fn nonsense() -> Vec<Vec<u8>> {
    let noise = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    // A frame that never ends, one that is too large, many empty ones, and TLS.
    vec![
        noise.collect(),
        vec![0xff, 0xff, 0, 0, 8, 1],
        vec![0xff; 16],
        vec![0; 400_000],
        vec![0x16, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    ]
}

#[test]
fn a_relay_outlives_hosts_that_answer_nonsense() {
    let (listener, address) = hostile_host();
    let relay = TestRelay::start(&address, machine("guest"));
    for words in nonsense() {
        // The relay's own connection, or one of a producer, which hurries it.
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

/// Writes until nothing more is taken for a while, and returns how much that was.
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
        assert!(total < 64 << 20, "no end of it is kept");
    }
}

#[test]
fn a_relay_keeps_little_of_what_nobody_reads() {
    let (listener, address) = hostile_host();
    let relay = TestRelay::start(&address, machine("guest"));
    // The relay's own, which is never answered.
    let _own = listener.accept().unwrap();
    let mut producer = stream(&relay.address);
    let (mut host, _) = listener.accept().unwrap();
    let pause = Some(Duration::from_millis(500));
    producer.set_write_timeout(pause).unwrap();
    host.set_write_timeout(pause).unwrap();
    // Neither the host nor the producer reads.
    fill(&mut host);
    fill(&mut producer);
    // Others are served nevertheless, and the end does not wait for them.
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
fn ten_thousand_connections_of_one_machine_keep_no_other_from_being_served() {
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
    // Idle ones, and ones with half a frame, which are never completed.
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
