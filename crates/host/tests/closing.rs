//! Closing descriptors of clients, and their connections, holds up nobody else.

mod common;

use common::fuse::Fuse;
use common::passing::{Lingering, give, pass};
use common::{TestHost, bind_frame, read_frame, wait_closed};
use ferretto_ipc::frame;
use ferretto_ipc::port::producer;
use ferretto_ipc::socket::Socket;
use ferretto_proto::InitializeConnectionRequest;

/// A call to `InitializeConnection` that says that it brings memory.
fn initialize_frame() -> Vec<u8> {
    let request = InitializeConnectionRequest {
        producer_name: Some("lingering".into()),
        producer_provided_shmem: Some(true),
        shared_memory_page_size_hint_bytes: Some(4096),
        ..Default::default()
    };
    let mut bytes = Vec::new();
    producer::Request::InitializeConnection(request).encode(&mut bytes);
    frame::invoke_method(1, 1, 1, false, bytes.len(), |out| {
        out.extend_from_slice(&bytes)
    })
}

#[test]
fn sockets_that_linger_are_closed_elsewhere() {
    let host = TestHost::start();
    let mut lingering = Lingering::default();
    // With frames that are answered, and with half of one.
    let mut whole = |socket: Socket, frame: Vec<u8>, answered: bool| {
        assert!(give(&socket, &frame, vec![lingering.socket()]));
        if answered {
            assert!(read_frame(&socket).is_some());
        }
        host.assert_alive();
    };
    whole(host.producer_socket(), bind_frame("ProducerPort"), true);
    whole(host.consumer_socket(), bind_frame("ConsumerPort"), true);
    whole(host.producer_socket(), initialize_frame(), true);
    whole(
        host.producer_socket(),
        initialize_frame()[..9].to_vec(),
        false,
    );
    whole(host.producer_socket(), vec![0xff; 4], false);
    host.stop();
}

#[test]
fn so_are_more_of_them_than_may_come_at_once() {
    let host = TestHost::start();
    let mut lingering = Lingering::default();
    for count in [2, 3, 60] {
        let socket = host.producer_socket();
        let fds: Vec<_> = (0..count).map(|_| lingering.socket()).collect();
        assert!(give(&socket, &bind_frame("ProducerPort"), fds));
        match count {
            2 => assert!(read_frame(&socket).is_some()),
            _ => wait_closed(&socket),
        }
        host.assert_alive();
    }
    host.stop();
}

#[test]
fn so_are_those_that_nobody_has_read() {
    let host = TestHost::start();
    let mut lingering = Lingering::default();
    for _ in 0..20 {
        let socket = host.producer_socket();
        // Ends the connection before the descriptors behind it are read.
        assert!(pass(&socket, &[0xff; 4], &[]));
        for _ in 0..5 {
            give(
                &socket,
                &bind_frame("ProducerPort"),
                vec![lingering.socket()],
            );
        }
        drop(socket);
        host.assert_alive();
    }
    host.stop();
}

#[test]
fn so_are_connections_that_are_refused() {
    let host = TestHost::start_with(|options| options.limits.connections_per_user = Some(2));
    let mut lingering = Lingering::default();
    let kept = host.producer_socket();
    assert!(pass(&kept, &bind_frame("ProducerPort"), &[]));
    assert!(read_frame(&kept).is_some());
    let second = host.producer_socket();
    for _ in 0..20 {
        let socket = host.producer_socket();
        give(
            &socket,
            &bind_frame("ProducerPort"),
            vec![lingering.socket()],
        );
        wait_closed(&socket);
        assert!(pass(&kept, &bind_frame("ProducerPort"), &[]));
        assert!(read_frame(&kept).is_some());
    }
    drop((kept, second));
    host.stop();
}

#[test]
fn so_are_files_of_file_systems_that_do_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let fuse = match Fuse::mount(folder.path().into()) {
        Ok(fuse) => fuse,
        Err(why) => return println!("skipped: {why}"),
    };
    let host = TestHost::start();
    // More than one user has threads for.
    for _ in 0..8 {
        let (producer, consumer) = (host.producer_socket(), host.consumer_socket());
        // Its kind is not examined either.
        assert!(pass(&producer, &initialize_frame(), &[fuse.file()]));
        assert!(read_frame(&producer).is_some());
        assert!(pass(&consumer, &bind_frame("ConsumerPort"), &[fuse.file()]));
        assert!(read_frame(&consumer).is_some());
        host.assert_alive();
        // Unread, and refused.
        let socket = host.producer_socket();
        pass(&socket, &[0xff; 4], &[fuse.file(), fuse.file()]);
        pass(&socket, &[0xff; 4], &[fuse.file()]);
        wait_closed(&socket);
        host.assert_alive();
    }
    drop(fuse);
    host.stop();
}
