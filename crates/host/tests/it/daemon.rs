//! The daemon in a process of its own.

use std::io::{PipeReader, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{Client, enable};
use ferretto_host::HostOptions;
use ferretto_ipc::Address;
use ferretto_ipc::port::{consumer, producer};
use ferretto_ipc::socket::Socket;
use ferretto_proto::fields::trace_packet::TRACE_STATS;
use ferretto_wire::Fields;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that lifts the limit of connections.
const CROWDED_VARIABLE: &str = "FERRETTO_TEST_CROWDED";
/// The environment variable that makes [`daemon_main`] the daemon.
const DAEMON_VARIABLE: &str = "FERRETTO_TEST_DAEMON";

/// Returns a command that runs the daemon in a process of its own: this program again, with the
/// test below as its main function.
fn daemon(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "daemon::daemon_main", "--nocapture"])
        .env(DAEMON_VARIABLE, "1")
        .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
        .stdout(Stdio::null());
    command
}

#[test]
fn daemon_main() {
    if std::env::var_os(DAEMON_VARIABLE).is_none() {
        return;
    }
    let mut options = HostOptions::from_environment().unwrap();
    if std::env::var_os(CROWDED_VARIABLE).is_some() {
        options.limits.connections_per_user = Some(usize::MAX);
    }
    ferretto_host::traced::run(options, |_| ()).unwrap_or_else(|error| panic!("{error}"));
}

/// Makes a daemon report when it listens. Dropping the writer closes the other end here.
fn notify(command: &mut Command) -> (PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    // The child inherits it under the same number.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    command.env("TRACED_NOTIFY_FD", writer.as_raw_fd().to_string());
    (reader, writer)
}

/// Starts a daemon whose other threads, those of the test, have its signals blocked, too.
fn spawn(command: &mut Command) -> Child {
    let signals = SigSet::from_iter([SIGINT, SIGTERM]);
    signals.thread_block().unwrap();
    let child = command.spawn();
    signals.thread_unblock().unwrap();
    child.unwrap()
}

/// Starts a daemon, and waits until it listens.
fn start(mut command: Command) -> Child {
    let (mut reader, writer) = notify(&mut command);
    let child = spawn(&mut command);
    drop(writer);
    reader.read_exact(&mut [0]).unwrap();
    child
}

fn end(mut child: Child, signal: Signal) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert!(child.wait().unwrap().success());
}

fn at(path: &Path) -> Address {
    Address::Path(path.to_owned())
}

#[test]
fn ipc_029_the_daemon_says_when_it_is_ready_and_ends_cleanly_on_signals() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = daemon(folder.path());
        let (mut reader, writer) = notify(&mut command);
        let child = spawn(&mut command);
        drop(writer);
        let mut received = Vec::new();
        // Ends although the daemon continues, which closes its end.
        reader.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"1");
        for name in ["p", "c"] {
            Socket::connect(&at(&folder.path().join(name))).unwrap();
        }
        end(child, signal);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// Makes `command` start with these two as descriptors 3 and 4, as systemd does.
fn activate(command: &Command, names: &str, sockets: [OwnedFd; 2]) -> Command {
    let [first, second] = sockets;
    let script = "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_PID=$$; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    let variables = command.get_envs();
    shell.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    shell.env("LISTEN_FDS", "2").env("LISTEN_FDNAMES", names);
    shell.stdin(Stdio::from(first)).stdout(Stdio::from(second));
    shell
}

fn assert_served(producers: &Path, consumers: &Path) {
    let mut producer = Client::<producer::Port>::bind(Socket::connect(&at(producers)).unwrap());
    producer.initialize("activated");
    let mut consumer = Client::<consumer::Port>::bind(Socket::connect(&at(consumers)).unwrap());
    let request = consumer::Request::QueryServiceState(Default::default());
    let Ok(consumer::Reply::QueryServiceState(state)) = consumer.call(&request).result else {
        panic!()
    };
    assert_eq!(state.service_state.producers.len(), 1);
}

#[test]
fn systemd_sockets_are_served_and_kept_and_systemd_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let listen = |name: &str| OwnedFd::from(UnixListener::bind(path(name)).unwrap());
    let status = UnixDatagram::bind(path("notify")).unwrap();
    let mut command = daemon(folder.path());
    command.env("NOTIFY_SOCKET", path("notify"));
    // A connection made before the daemon starts waits for it.
    let sockets = [listen("first"), listen("second")];
    let early = Socket::connect(&at(&path("second"))).unwrap();
    let mut command = activate(&command, "traced-consumer.socket:producer", sockets);
    let child = spawn(&mut command);
    let mut received = [0; 64];
    let size = status.recv(&mut received).unwrap();
    assert_eq!(&received[..size], b"READY=1\n");
    Client::<producer::Port>::bind(early);
    assert_served(&path("second"), &path("first"));
    assert!(!path("p").exists() && !path("c").exists());
    end(child, Signal::TERM);
    let size = status.recv(&mut received).unwrap();
    assert_eq!(&received[..size], b"STOPPING=1\n");
    assert!(path("first").exists() && path("second").exists());
}

#[test]
fn a_socket_without_a_known_purpose_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let listen = |name: &str| OwnedFd::from(UnixListener::bind(path(name)).unwrap());
    let command = daemon(folder.path());
    let sockets = [listen("one"), listen("two")];
    let child = activate(&command, "producer:other", sockets)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        messages.contains("FileDescriptorName= of its unit is"),
        "{messages}"
    );
}

#[test]
fn bound_sockets_of_android_s_init_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let bound = |name: &str| {
        let family = rustix::net::AddressFamily::UNIX;
        let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(folder.path().join(name)).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        socket
    };
    // Not listening yet, and not closed on exec.
    let (producers, consumers) = (bound("producers"), bound("consumers"));
    let mut command = daemon(folder.path());
    command
        .env(
            "ANDROID_SOCKET_traced_producer",
            producers.as_raw_fd().to_string(),
        )
        .env(
            "ANDROID_SOCKET_traced_consumer",
            consumers.as_raw_fd().to_string(),
        );
    let child = start(command);
    drop((producers, consumers));
    assert_served(
        &folder.path().join("producers"),
        &folder.path().join("consumers"),
    );
    end(child, Signal::TERM);

    let mut half = daemon(folder.path());
    half.env("ANDROID_SOCKET_traced_producer", "3")
        .stderr(Stdio::piped());
    let output = half.output().unwrap();
    assert!(!output.status.success());
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(messages.contains("go together"), "{messages}");
}

#[test]
fn the_end_of_the_daemon_completes_a_session_s_file() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(daemon(folder.path()));
    let trace = folder.path().join("trace");
    let consumer = Socket::connect(&at(&folder.path().join("c"))).unwrap();
    let mut consumer = Client::<consumer::Port>::bind(consumer);
    let request = enable("none", |config| {
        config.write_into_file = Some(true);
        config.output_path = Some(trace.as_os_str().as_encoded_bytes().to_vec());
    });
    consumer.0.invoke(&request, None, true).unwrap();
    // Answered after the session began.
    let query = consumer::Request::QueryServiceState(Default::default());
    assert!(consumer.call(&query).result.is_ok());
    end(child, Signal::TERM);
    let bytes = std::fs::read(&trace).unwrap();
    let packets = Fields::new(&bytes).map(|packet| packet.unwrap().as_bytes().unwrap());
    let with_statistics = packets.filter(|packet| Fields::find(TRACE_STATS, packet).is_some());
    assert!(with_statistics.count() > 0, "they come at the end");
}

#[test]
fn without_free_descriptors_the_daemon_waits_for_some() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    // The hard limit cannot be raised again.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 40 && exec \"$@\"", "sh"])
        .arg(daemon.get_program());
    command.args(daemon.get_args());
    let variables = daemon.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    command.env(CROWDED_VARIABLE, "1");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = start(command);
    let address = Address::Path(folder.path().join("p"));
    let early: Vec<_> = (0..60)
        .map(|_| Socket::connect(&address).unwrap())
        .collect();
    let mut first = Client::<producer::Port>::bind(early.into_iter().next().unwrap());
    first.initialize("first");
    // All others are gone now; later ones are served.
    let mut last = Client::<producer::Port>::bind(Socket::connect(&address).unwrap());
    last.initialize("late");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
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
