//! Services of untrusted users, and untrusted memory.

use std::fs::{Permissions, set_permissions};
use std::io::Read as _;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use ferretto_client::{Address, Event, LostReason, Producer, ProducerOptions};
use ferretto_ipc::frame;
use ferretto_ipc::socket::Socket;
use ferretto_testing::client::{Service, next_event, producer_at, unique_address};
use rustix::fs::{MemfdFlags, SealFlags};

/// The user `nobody`.
const USER: u32 = 65_534;

fn reason(mut producer: Producer) -> String {
    let event = next_event(&mut producer, |event| {
        matches!(event, Event::Disconnected(_) | Event::Connected)
    });
    match event {
        Event::Disconnected(reason) => reason.to_string(),
        _ => "none".to_owned(),
    }
}

#[test]
fn no_data_is_sent_to_a_service_in_a_folder_that_others_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let socket = Address::Path(folder.path().join("producer.sock"));
    let _service = Service::start_at(socket.clone(), unique_address("consumer"));
    assert_eq!(reason(producer_at(&socket)), "none");

    set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let output = reason(producer_at(&socket));
    assert!(output.contains("every user can replace it"), "{output}");
    // As in `/tmp`: only the owner can replace a socket.
    set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(reason(producer_at(&socket)), "none");

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a folder away");
        return;
    }
    std::os::unix::fs::chown(folder.path(), Some(USER), None).unwrap();
    let output = reason(producer_at(&socket));
    assert!(output.contains("in a folder of user 65534"), "{output}");
    let trusting = ProducerOptions {
        address: Some(socket),
        trusted_users: vec![USER],
        ..Default::default()
    };
    assert_eq!(reason(Producer::new(trusting).unwrap()), "none");
}

#[test]
fn shm_011_memory_that_the_service_could_take_back_is_refused() {
    let mebibyte = 1 << 20;
    for (seals, expected) in [
        (SealFlags::empty(), "not sealed"),
        (SealFlags::SHRINK, "not sealed"),
        // This memory is accepted, and the next event is the end of the connection.
        (
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
            "closed",
        ),
    ] {
        let memory = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&memory, mebibyte).unwrap();
        rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
        let address = unique_address("truncating");
        let Address::Abstract(name) = &address else {
            panic!()
        };
        let name = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut socket = Socket::from_fd(stream.try_clone().unwrap().into()).unwrap();
            stream.set_nonblocking(false).unwrap();
            let methods = [(1, "InitializeConnection"), (2, "GetAsyncCommand")];
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let bound = frame::bind_service_reply(1, 1, &methods);
            socket.queue(bound, None).unwrap();
            socket.flush().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let welcome = frame::method_reply(2, false, 0, |_| {});
            // SetupTracing, with pages of 4 KiB.
            let command = b"\x1a\x02\x08\x04";
            let command =
                frame::method_reply(3, true, command.len(), |out| out.extend_from_slice(command));
            socket.queue(welcome, None).unwrap();
            socket.queue(command, Some(memory)).unwrap();
            socket.flush().unwrap();
            // A socket with unread messages would be reset, not closed.
            stream.shutdown(Shutdown::Write).unwrap();
            while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        });
        let mut producer = producer_at(&address);
        let event = next_event(&mut producer, |event| {
            matches!(event, Event::Disconnected(_))
        });
        let Event::Disconnected(reason) = event else {
            panic!()
        };
        // The service waits for the end of the connection.
        drop(producer);
        let is_memory = matches!(reason, LostReason::Memory(_));
        assert_eq!(is_memory, expected == "not sealed", "{reason}");
        assert!(reason.to_string().contains(expected), "{reason}");
        service.join().unwrap();
    }
}
