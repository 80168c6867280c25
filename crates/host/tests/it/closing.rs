//! Closing descriptors and connections of clients delays no other work.

use crate::common::fuse::Fuse;
use crate::common::passing::{Lingering, give, pass};
use crate::common::{TestHost, bind_frame, read_frame, wait_closed};
use ferretto_ipc::frame;
use ferretto_ipc::port::producer;
use ferretto_ipc::socket::Socket;
use ferretto_proto::InitializeConnectionRequest;

/// Returns a call to `InitializeConnection` that announces memory of the producer.
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
fn lingering_sockets_are_closed_on_other_threads() {
    ferretto_testing::own_process!();
    let host = TestHost::start();
    let mut lingering = Lingering::default();
    // With complete frames, and with half a frame.
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
fn too_many_lingering_sockets_at_once_are_closed_on_other_threads() {
    ferretto_testing::own_process!();
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
fn unread_lingering_sockets_are_closed_on_other_threads() {
    ferretto_testing::own_process!();
    let host = TestHost::start();
    let mut lingering = Lingering::default();
    for _ in 0..20 {
        let socket = host.producer_socket();
        // Ends the connection before the descriptors after it are read.
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
fn refused_connections_are_closed_on_other_threads() {
    ferretto_testing::own_process!();
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
fn files_of_unresponsive_file_systems_are_closed_on_other_threads() {
    ferretto_testing::own_process!();
    let folder = tempfile::tempdir().unwrap();
    let fuse = match Fuse::mount(folder.path().into()) {
        Ok(fuse) => fuse,
        Err(why) => return println!("skipped: {why}"),
    };
    let host = TestHost::start();
    // More than the threads of one user can close at once.
    for _ in 0..8 {
        let (producer, consumer) = (host.producer_socket(), host.consumer_socket());
        // Not even the kind of the file is examined.
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
