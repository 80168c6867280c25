//! Clients that misbehave affect no other client.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use crate::common::{
    Client, TestHost, bind_frame, enable, read_frame, send_raw, wait, wait_closed,
};
use ferretto_ipc::frame::{self, Frame, MAX_PAYLOAD_SIZE, Message};
use ferretto_ipc::port::{consumer, producer};
use ferretto_ipc::socket::Socket;
use ferretto_proto::Message as _;
use ferretto_wire::Fields;
use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

fn sockets(host: &TestHost) -> [(Socket, &'static str); 2] {
    [
        (host.producer_socket(), "ProducerPort"),
        (host.consumer_socket(), "ConsumerPort"),
    ]
}

/// Returns a frame with this payload.
fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// Returns pseudorandom bytes, the same in every run.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn garbage_on_both_sockets_affects_no_other_client() {
    let host = TestHost::start();
    for seed in 0..50 {
        for (socket, _) in sockets(&host) {
            // Raw noise, which soon announces a frame of impossible size.
            send_raw(&socket, &noise(seed, 10_000));
        }
        for (socket, name) in sockets(&host) {
            // Noise in well-formed frames, then a valid frame on the same connection.
            for length in [1, 3, 17, 200] {
                assert!(send_raw(
                    &socket,
                    &framed(&noise(seed + length, length as usize))
                ));
            }
            assert!(send_raw(&socket, &bind_frame(name)));
            loop {
                let frame = read_frame(&socket).expect("still connected");
                let frame = Frame::decode(&frame).unwrap();
                if let Message::BindServiceReply { success: true, .. } = frame.message {
                    break;
                }
            }
        }
    }
    host.assert_alive();
}

#[test]
fn garbage_from_other_machines_affects_no_other_client() {
    let host = TestHost::start_with(|options| {
        options.producers.push("127.0.0.1:0".parse().unwrap());
        options.relays = ferretto_host::RelayEndpoints::Everywhere;
    });
    let address = ferretto_ipc::Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.port.unwrap(),
    };
    for seed in 0..50 {
        let socket = Socket::connect(&address).unwrap();
        // An identity or none, then calls of the relay's methods with malformed arguments.
        send_raw(
            &socket,
            &framed(&[b"\x42\x0b", &noise(seed, 11)[..]].concat()),
        );
        for method in 0..4 {
            let arguments = noise(seed + 100, 3 * seed as usize);
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&arguments);
            let call = frame::invoke_method(seed, 2, method, seed % 2 == 0, arguments.len(), write);
            send_raw(&socket, &call);
        }
        assert!(send_raw(&socket, &bind_frame("RelayPort")));
        while let Some(reply) = read_frame(&socket) {
            if let Message::BindServiceReply { success: true, .. } =
                Frame::decode(&reply).unwrap().message
            {
                break;
            }
        }
        send_raw(&socket, &noise(seed, 10_000));
    }
    host.assert_alive();
}

#[test]
fn ipc_001_ipc_002_an_oversize_header_ends_the_connection_and_no_other() {
    let host = TestHost::start();
    let witness = host.producer_socket();
    for size in [MAX_PAYLOAD_SIZE as u32 + 1, 0xFFFF_FFFD] {
        for (socket, _) in sockets(&host) {
            assert!(send_raw(&socket, &size.to_le_bytes()));
            wait_closed(&socket);
        }
    }
    assert!(send_raw(&witness, &bind_frame("ProducerPort")));
    assert!(read_frame(&witness).is_some());
    assert!(host.notice().contains("131069 bytes was announced"));
    host.assert_alive();
}

#[test]
fn ipc_001_the_largest_frame_is_taken() {
    let host = TestHost::start();
    let socket = host.producer_socket();
    // An unknown field fills the frame; the rest is a bind.
    let mut payload = bind_frame("ProducerPort")[4..].to_vec();
    let filler = MAX_PAYLOAD_SIZE - payload.len() - 4;
    payload.extend_from_slice(&[0x0a]);
    payload.extend_from_slice(&[
        (filler & 127) as u8 | 128,
        (filler >> 7 & 127) as u8 | 128,
        (filler >> 14) as u8,
    ]);
    payload.resize(MAX_PAYLOAD_SIZE, 0);
    assert!(send_raw(&socket, &framed(&payload)));
    let reply = read_frame(&socket).unwrap();
    let frame = Frame::decode(&reply).unwrap();
    assert!(matches!(
        frame.message,
        Message::BindServiceReply { success: true, .. }
    ));
}

#[test]
fn ipc_006_frames_before_an_oversize_header_do_nothing() {
    let host = TestHost::start();
    let socket = host.producer_socket();
    let bytes = [bind_frame("ProducerPort"), u32::MAX.to_le_bytes().to_vec()].concat();
    assert!(send_raw(&socket, &bytes));
    assert!(read_frame(&socket).is_none());
}

#[test]
fn ipc_012_ipc_015_ipc_016_unknown_services_methods_and_frames_are_refused() {
    let host = TestHost::start();
    for (socket, own) in sockets(&host) {
        for name in [
            "ProducerPort",
            "ConsumerPort",
            "RelayPort",
            "producerport",
            "",
        ] {
            assert!(send_raw(&socket, &bind_frame(name)));
            let reply = read_frame(&socket).unwrap();
            let frame = Frame::decode(&reply).unwrap();
            let Message::BindServiceReply { success, .. } = frame.message else {
                panic!("{frame:?}")
            };
            assert_eq!(success, name == own);
        }
        for (service, method) in [(0, 1), (2, 1), (1, 0), (1, 99), (u32::MAX, u32::MAX)] {
            assert!(send_raw(
                &socket,
                &frame::invoke_method(7, service, method, true, 0, |_| {})
            ));
            assert_eq!(
                framed(&read_frame(&socket).unwrap()),
                frame::method_failed(7)
            );
        }
        assert!(send_raw(&socket, &framed(b"\x10\x09")));
        let expected = frame::request_error(9, "unknown request");
        assert_eq!(framed(&read_frame(&socket).unwrap()), expected);
    }
}

#[test]
fn ipc_018_a_call_without_reply_gets_none() {
    let host = TestHost::start();
    let socket = host.producer_socket();
    // Sync without a reply, then with one, both before initialisation.
    for drop_reply in [true, false] {
        assert!(send_raw(
            &socket,
            &frame::invoke_method(5, 1, 11, drop_reply, 0, |_| {})
        ));
    }
    assert!(read_frame(&socket).is_some());
    assert!(send_raw(&socket, &bind_frame("x")));
    assert_eq!(
        framed(&read_frame(&socket).unwrap()),
        frame::bind_service_failed(1)
    );
}

#[test]
fn a_peer_that_dies_within_a_frame_is_removed() {
    let host = TestHost::start();
    for (socket, name) in sockets(&host) {
        let frame = bind_frame(name);
        for cut in 1..frame.len() {
            let socket = match name {
                "ProducerPort" => host.producer_socket(),
                _ => host.consumer_socket(),
            };
            assert!(send_raw(&socket, &frame[..cut]));
        }
        drop(socket);
    }
    host.assert_alive();
}

#[test]
fn ipc_007_what_a_peer_sent_before_it_closed_still_counts() {
    let host = TestHost::start();
    let path = host.folder().join("trace");
    let mut consumer = host.consumer();
    // A session whose only effect is the creation of its file.
    let request = enable("none", |config| {
        config.write_into_file = Some(true);
        config.output_path = Some(path.as_os_str().as_encoded_bytes().to_vec());
    });
    consumer.0.invoke(&request, None, false).unwrap();
    drop(consumer);
    host.stop_after(|| path.exists());
}

#[test]
fn ipc_033_ipc_034_a_flood_of_descriptors_leaks_none() {
    let host = TestHost::start();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    for count in [1, 2, 3, 60] {
        for (socket, name) in sockets(&host) {
            let fds = vec![reader.as_fd(); count];
            for _ in 0..20 {
                let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(60))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
                let bytes = bind_frame(name);
                let slices = [IoSlice::new(&bytes)];
                if sendmsg(&socket, &slices, &mut control, SendFlags::NOSIGNAL).is_err() {
                    break;
                }
            }
            if count <= 2 {
                assert!(read_frame(&socket).is_some());
            } else {
                wait_closed(&socket);
            }
        }
    }
    host.assert_alive();
    // Without connections, only this test has the pipe open.
    host.stop();
    drop(reader);
    let broken = rustix::io::write(&writer, b"x");
    assert_eq!(broken, Err(rustix::io::Errno::PIPE));
}

#[test]
fn ipc_034_a_descriptor_that_no_frame_needs_is_closed() {
    let host = TestHost::start();
    for (socket, name) in sockets(&host) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let fds = [reader.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let bytes = bind_frame(name);
        let slices = [IoSlice::new(&bytes)];
        sendmsg(&socket, &slices, &mut control, SendFlags::NOSIGNAL).unwrap();
        drop(reader);
        assert!(read_frame(&socket).is_some());
        // Waits until the other end of the pipe is closed.
        wait(&writer, PollFlags::empty());
        let broken = rustix::io::write(&writer, b"x");
        assert_eq!(broken, Err(rustix::io::Errno::PIPE), "{name}");
    }
}

#[test]
fn two_hundred_connections_are_served() {
    let host = TestHost::start();
    let mut producers: Vec<_> = (0..100).map(|_| host.producer()).collect();
    let mut consumers: Vec<_> = (0..100).map(|_| host.consumer()).collect();
    for (index, producer) in producers.iter_mut().enumerate() {
        producer.initialize(&format!("producer {index}"));
    }
    for consumer in &mut consumers {
        let request = consumer::Request::QueryServiceState(Default::default());
        let reply = consumer.call(&request);
        let Ok(consumer::Reply::QueryServiceState(state)) = reply.result else {
            panic!()
        };
        assert_eq!(state.service_state.producers.len(), 100);
    }
}

#[test]
fn a_thousand_idle_connections_block_no_others() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if limit.maximum.is_some_and(|most| most < 4096) || setrlimit(Resource::Nofile, limit).is_err()
    {
        return println!("skipped: this process may not open 4096 descriptors");
    }
    let host = TestHost::start_with(|options| options.limits.connections_per_user = Some(2000));
    let idle: Vec<_> = (0..500)
        .map(|_| (host.producer(), host.consumer()))
        .collect();
    host.assert_alive();
    drop(idle);
    host.assert_alive();
}

#[test]
fn ipc_038_relay_027_a_producer_that_never_reads_is_disconnected_and_serves_as_no_obstacle() {
    let host = TestHost::start_with(|options| options.limits.producer_queue = 64 << 10);
    let socket = host.producer_socket();
    // Each call has an answer that is never read.
    let call = frame::invoke_method(1, 1, 11, false, 0, |_| {});
    let calls = call.repeat(1000);
    while send_raw(&socket, &calls) {}
    assert!(host.notice().contains("does not read"));
    host.assert_alive();
}

#[test]
fn a_consumer_that_does_not_read_uses_bounded_memory() {
    let limits = |options: &mut ferretto_host::HostOptions| {
        options.limits.consumer_high_water = 32 << 10;
        options.limits.consumer_queue = 1 << 20;
    };
    let host = TestHost::start_with(limits);
    let socket = host.consumer_socket();
    let query = frame::invoke_method(1, 1, 12, false, 0, |_| {});
    // Sends until the host stops reading, which fills both directions.
    let mut sent = 0;
    let mut full = 0;
    while full < 3 {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(&socket, &query, flags) {
            Ok(_) => {
                sent += 1;
                full = 0;
            }
            Err(rustix::io::Errno::AGAIN) => {
                full += 1;
                host.assert_alive();
            }
            Err(error) => panic!("{error}"),
        }
    }
    // Once the client reads, every request is answered.
    for _ in 0..sent {
        assert!(read_frame(&socket).is_some());
    }
    assert_eq!(host.try_notice(), None);
}

#[test]
fn ipc_039_a_consumer_that_stops_reading_is_disconnected_and_its_session_freed() {
    let host = TestHost::start_with(|options| {
        // The timeout expires at once.
        options.limits.consumer_stall = 1_000_000;
        options.limits.consumer_high_water = 32 << 10;
    });
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("none", |_| {}), None, true)
        .unwrap();
    let query = consumer::Request::QueryServiceState(Default::default());
    // Sends requests until answers accumulate at the host.
    let notice = loop {
        consumer.0.invoke(&query, None, true).unwrap();
        if let Some(notice) = host.try_notice() {
            break notice;
        }
    };
    assert!(notice.contains("has not read"), "{notice}");
    let mut other = host.consumer();
    let reply = other.call(&query);
    let Ok(consumer::Reply::QueryServiceState(state)) = reply.result else {
        panic!()
    };
    assert_eq!(state.service_state.num_sessions, Some(0));
}

#[test]
fn the_connections_of_one_user_are_bounded() {
    let host = TestHost::start_with(|options| options.limits.connections_per_user = Some(20));
    let kept: Vec<_> = (0..10).flat_map(|_| sockets(&host)).collect();
    let is_served = |socket: &Socket, name: &str| {
        send_raw(socket, &bind_frame(name)) && read_frame(socket).is_some()
    };
    for (socket, name) in &kept {
        assert!(is_served(socket, name));
    }
    // A refused client sees the connection end; the operator is notified once.
    for _ in 0..50 {
        wait_closed(&host.producer_socket());
        wait_closed(&host.consumer_socket());
    }
    let uid = rustix::process::geteuid().as_raw();
    let expected = format!("connections of user {uid} are refused: there are 20 already");
    assert_eq!(host.notice(), expected);
    assert_eq!(host.try_notice(), None);
    for (socket, name) in &kept {
        assert!(is_served(socket, name));
    }
    // Once there is space again, which the host may notice later, connections are accepted.
    drop(kept);
    while !is_served(&host.producer_socket(), "ProducerPort") {}
    host.assert_alive();
}

#[test]
fn unread_bytes_of_one_user_s_clients_are_bounded() {
    let host = TestHost::start_with(|options| options.limits.held_per_user = 256 << 10);
    // Each client stays far below its own limit.
    let binds = bind_frame("ProducerPort").repeat(500);
    let mut idle = Vec::new();
    let notice = loop {
        let socket = host.producer_socket();
        for _ in 0..4 {
            send_raw(&socket, &binds);
        }
        idle.push(socket);
        // This connection is served after those above, so that they have had their effect.
        let next = host.producer_socket();
        assert!(send_raw(&next, &bind_frame("ProducerPort")) && read_frame(&next).is_some());
        if let Some(notice) = host.try_notice() {
            break notice;
        }
        assert!(idle.len() < 1000);
    };
    assert!(
        notice.contains("bytes are held for clients of user"),
        "{notice}"
    );
    host.assert_alive();
}

#[test]
fn unfinished_frames_of_one_user_s_clients_are_bounded() {
    let host = TestHost::start_with(|options| options.limits.held_per_user = 1 << 20);
    let mut unfinished = framed(&vec![0; MAX_PAYLOAD_SIZE]);
    unfinished.pop();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let socket = host.producer_socket();
            send_raw(&socket, &unfinished);
            socket
        })
        .collect();
    let notice = host.notice();
    assert!(
        notice.contains("bytes are held for clients of user"),
        "{notice}"
    );
    drop(clients);
    host.assert_alive();
}

#[test]
fn a_flooding_producer_does_not_starve_another() {
    let host = TestHost::start();
    let path = host.producer_path();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let flood = std::thread::spawn(move || {
        let socket = Socket::connect(&ferretto_ipc::Address::Path(path)).unwrap();
        let call = frame::invoke_method(1, 1, 4, true, 0, |_| {}).repeat(1000);
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            assert!(send_raw(&socket, &call));
        }
    });
    let mut producer = host.producer();
    producer.initialize("patient");
    for _ in 0..20 {
        assert!(
            producer
                .call(&producer::Request::Sync(Default::default()))
                .result
                .is_ok()
        );
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flood.join().unwrap();
}

#[test]
fn programs_that_are_refused_are_counted_in_recordings() {
    let host = TestHost::start_with(|options| options.limits.connections_per_user = Some(2));
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("none", |_| {}), None, true)
        .unwrap();
    let turned_away = |consumer: &mut Client<consumer::Port>| {
        let reply = consumer.call(&consumer::Request::GetTraceStats(Default::default()));
        let Ok(consumer::Reply::GetTraceStats(reply)) = reply.result else {
            panic!()
        };
        let stats = reply.trace_stats.encode_to_vec();
        let field = Fields::find(ferretto_format::TURNED_AWAY, &stats);
        field.map_or(0, |field| field.as_u64().unwrap())
    };
    assert_eq!(turned_away(&mut consumer), 0);
    let _served = host.producer();
    wait_closed(&host.producer_socket());
    wait_closed(&host.consumer_socket());
    wait_closed(&host.producer_socket());
    assert_eq!(turned_away(&mut consumer), 2);
}
