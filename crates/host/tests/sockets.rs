//! Socket files: whose they are, who may use them, and what is left of them.

mod common;

use std::io::{ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use common::{Client, TestHost};
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
fn a_host_that_cannot_start_leaves_nothing() {
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
    assert_eq!((unknown.uid, unknown.machine_id), (Some(0), None));
}

/// Set where [`daemon_main`] is to be the daemon.
const DAEMON_VARIABLE: &str = "FERRETTO_TEST_DAEMON";

/// The daemon proper, in a process of its own: this program again, with the
/// test below as its main function.
fn daemon(folder: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "daemon_main", "--nocapture"])
        .env(DAEMON_VARIABLE, "1")
        .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
        .stdout(std::process::Stdio::null());
    command
}

#[test]
fn daemon_main() {
    if std::env::var_os(DAEMON_VARIABLE).is_none() {
        return;
    }
    let options = HostOptions::from_environment().unwrap();
    ferretto_host::traced::run(options, || ()).unwrap();
}

#[test]
fn ipc_029_the_daemon_says_when_it_is_ready_and_ends_cleanly_on_signals() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        // Inherited by the child under the same number.
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
        let number = writer.as_raw_fd().to_string();
        let mut child = daemon(folder.path())
            .env("TRACED_NOTIFY_FD", number)
            .spawn()
            .unwrap();
        drop(writer);
        let mut ready = [0];
        (&reader).read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"1");
        for name in ["p", "c"] {
            Socket::connect(&Address::Path(folder.path().join(name))).unwrap();
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn out_of_descriptors_the_daemon_waits_until_there_are_some() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    // The hard limit cannot be raised again.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 40 && exec \"$@\"", "sh"])
        .arg(daemon.get_program());
    command
        .args(daemon.get_args())
        .env("TRACED_NOTIFY_FD", writer.as_raw_fd().to_string());
    command.envs(
        daemon
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(writer);
    (&reader).read_exact(&mut [0]).unwrap();
    let address = Address::Path(folder.path().join("p"));
    let early: Vec<_> = (0..60)
        .map(|_| Socket::connect(&address).unwrap())
        .collect();
    let mut first = Client::<producer::Port>::bind(early.into_iter().next().unwrap());
    first.initialize("one of the lucky ones");
    // All others are gone now; those who come later are served.
    let mut last = Client::<producer::Port>::bind(Socket::connect(&address).unwrap());
    last.initialize("late");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut messages = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut messages)
        .unwrap();
    assert!(messages.contains("could not be accepted"), "{messages}");
    assert!(child.wait().unwrap().success());
}
