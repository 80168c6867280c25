//! Socket files: owners, permissions, and removal.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::common::{Client, TestHost};
use ferretto_host::{Host, HostError, HostOptions, SocketPermissions};
use ferretto_ipc::Address;
use ferretto_ipc::client::Connection;
use ferretto_ipc::frame::Identity;
use ferretto_ipc::port::{consumer, producer};
use ferretto_ipc::socket::{BindError, Socket};

#[test]
fn the_socket_of_a_live_service_is_refused_and_keeps_working() {
    let host = TestHost::start();
    let error = Host::bind(HostOptions::in_folder(host.folder())).unwrap_err();
    assert!(
        matches!(error, HostError::Bind(BindError::InUse { .. })),
        "{error}"
    );
    assert!(
        error.to_string().contains("in use by a running service"),
        "{error}"
    );
    host.assert_alive();
}

#[test]
fn a_host_that_cannot_start_leaves_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = HostOptions::in_folder(folder.path());
    options.consumer = Address::Path(folder.path().join("missing/consumer.sock"));
    let HostError::Bind(BindError::Io { source, .. }) = Host::bind(options).unwrap_err() else {
        panic!("bound");
    };
    assert_eq!(source.kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn stale_socket_files_are_replaced_and_ours_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["producer.sock", "consumer.sock"] {
        drop(std::os::unix::net::UnixListener::bind(folder.path().join(name)).unwrap());
    }
    let host = Host::bind(HostOptions::in_folder(folder.path())).unwrap();
    assert!(Socket::connect(&Address::Path(folder.path().join("producer.sock"))).is_ok());
    host.stopper().stop();
    host.run().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn ipc_028_permissions_are_applied_to_both_sockets() {
    let group = rustix::process::getegid().as_raw();
    let text = format!("{group}:0660:{group}:0600");
    let host = TestHost::start_with(|options| {
        options.permissions = Some(SocketPermissions::parse(&text).unwrap());
    });
    for (path, mode) in [(host.producer_path(), 0o660), (host.consumer_path(), 0o600)] {
        let metadata = std::fs::metadata(path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode);
        assert_eq!(metadata.gid(), group);
    }
    host.assert_alive();
}

#[test]
fn ipc_028_permissions_need_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = HostOptions::in_folder(folder.path());
    options.consumer = "127.0.0.1:0".parse().unwrap();
    options.permissions = Some(SocketPermissions::parse("0:0660:0:0600").unwrap());
    if !rustix::process::geteuid().is_root() {
        let group = rustix::process::getegid().as_raw();
        options.permissions =
            Some(SocketPermissions::parse(&format!("{group}:0660:{group}:0600")).unwrap());
    }
    let error = Host::bind(options).unwrap_err();
    assert!(matches!(error, HostError::Permissions { .. }), "{error}");
}

#[test]
fn ipc_026_every_producer_address_is_served() {
    let name = format!("ferretto-host-{}", std::process::id());
    let address = Address::Abstract(name.into_bytes());
    let host = TestHost::start_with(|options| {
        options.producers.push(address.clone());
        options.producers.push("127.0.0.1:0".parse().unwrap());
    });
    let port = host.port.unwrap();
    let tcp = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port,
    };
    for (address, emulated) in [(address, false), (tcp, true)] {
        let mut client = Client::<producer::Port>::bind(Socket::connect(&address).unwrap());
        let request = producer::Request::InitializeConnection(Default::default());
        let reply = client.call(&request);
        let Ok(producer::Reply::InitializeConnection(reply)) = reply.result else {
            panic!()
        };
        assert_eq!(reply.use_shmem_emulation, Some(emulated), "{address}");
    }
    host.assert_alive();
}

#[test]
fn ipc_031_producers_are_known_by_the_kernel_s_word() {
    let host = TestHost::start();
    let mut producer = host.producer();
    producer.initialize("me");
    let mut consumer = host.consumer();
    let request = consumer::Request::QueryServiceState(Default::default());
    let Ok(consumer::Reply::QueryServiceState(state)) = consumer.call(&request).result else {
        panic!()
    };
    let me = &state.service_state.producers[0];
    assert_eq!(me.pid, Some(std::process::id() as i32));
    assert_eq!(me.uid, Some(rustix::process::geteuid().as_raw() as i32));
}

#[test]
fn ipc_032_a_producer_over_tcp_says_who_it_is() {
    let host = TestHost::start_with(|options| {
        options.producers.push("127.0.0.1:0".parse().unwrap());
    });
    let tcp = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.port.unwrap(),
    };
    let identity = Identity {
        pid: 4242,
        uid: 1000,
        machine_id_hint: b"test_machine_id_hint",
        machine_name: b"guest",
    };
    let socket = Socket::connect(&tcp).unwrap();
    let mut known = Client::bound(Connection::<producer::Port>::with_identity(
        socket, &identity,
    ));
    known.initialize("known");
    let mut unknown = Client::<producer::Port>::bind(Socket::connect(&tcp).unwrap());
    unknown.initialize("unknown");
    let request = consumer::Request::QueryServiceState(Default::default());
    let reply = host.consumer().call(&request);
    let Ok(consumer::Reply::QueryServiceState(state)) = reply.result else {
        panic!()
    };
    let [known, unknown] = &state.service_state.producers[..] else {
        panic!()
    };
    assert_eq!(
        (known.pid, known.uid, known.machine_id),
        (Some(4242), Some(1000), Some(3_820_972_779))
    );
    assert_eq!(known.machine_name.as_deref(), Some(&b"guest"[..]));
    assert_eq!((unknown.uid, unknown.machine_id), (Some(65_534), None));
}

#[test]
fn ipc_024_ipc_032_vsock_producers_are_served_like_those_over_tcp() {
    let address = Address::Vsock {
        cid: u32::MAX,
        port: 0x4000_0000 | std::process::id(),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut options = HostOptions::in_folder(folder.path());
    options.producers.push(address.clone());
    let host = match Host::bind(options) {
        Ok(host) => host,
        Err(error) => return println!("skipped: vsock sockets are not available: {error}"),
    };
    let mut other = HostOptions::in_folder(&folder.path().join("other"));
    other.producers = vec![address.clone()];
    let error = Host::bind(other).unwrap_err();
    assert!(
        matches!(error, HostError::Bind(BindError::InUse { .. })),
        "{error}"
    );
    let stopper = host.stopper();
    let thread = std::thread::spawn(move || host.run());
    let Address::Vsock { port, .. } = address else {
        panic!()
    };
    // Context 1 is this machine, where the kernel supports it.
    match Socket::connect(&Address::Vsock { cid: 1, port }) {
        Err(error) => {
            println!("skipped: vsock connections within this machine are not available: {error}")
        }
        Ok(socket) => {
            let mut client = Client::<producer::Port>::bind(socket);
            let request = producer::Request::InitializeConnection(Default::default());
            let Ok(producer::Reply::InitializeConnection(reply)) = client.call(&request).result
            else {
                panic!()
            };
            assert_eq!(reply.use_shmem_emulation, Some(true));
        }
    }
    stopper.stop();
    thread.join().unwrap().unwrap();
}
