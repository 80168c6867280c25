//! The stream on standard input and output, and on a Unix socket.

use std::io::{BufRead, Read, Write};

use ferretto_wire::{Fields, encode as message};

use super::decode;
use crate::common::{TRACE, encode};

#[test]
fn query_137_the_stream_is_served_on_standard_input_and_output() {
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("trace_processor_shell");
    std::os::unix::fs::symlink(crate::common::PROGRAM, &program).expect("link");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let mut child = std::process::Command::new(program)
        .arg("--stdiod")
        .arg(&trace)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    let request = count_slices();
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&request).expect("a request");
    drop(input);
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success());
    assert_eq!(counted(&output.stdout), ["4"]);
}

/// Returns a stream with a request.
fn count_slices() -> Vec<u8> {
    message(|stream| {
        stream.nested(1, |m| {
            m.varint(2, 3);
            m.nested(103, |query| query.string(1, "SELECT count(*) FROM slice"));
        });
    })
}

/// Returns the cells of the reply to [`count_slices`].
fn counted(stream: &[u8]) -> Vec<String> {
    let reply = Fields::find(1, stream).and_then(|f| f.as_bytes());
    let result = Fields::find(203, reply.expect("a reply")).and_then(|f| f.as_bytes());
    decode(result.expect("a result")).cells
}

#[test]
fn query_137_the_stream_is_served_on_a_unix_socket_of_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let path = folder.path().join("s.sock");
    let serve = || {
        let mut command = crate::common::query();
        command
            .arg("--serve")
            .arg("--socket")
            .arg(&path)
            .arg(&trace);
        command.stderr(std::process::Stdio::piped());
        command.spawn().expect("the program")
    };
    // The socket of a killed server is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let mut server = serve();
    let mut output = std::io::BufReader::new(server.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with("listening on") {
        line.clear();
        assert_ne!(
            output.read_line(&mut line).expect("a line"),
            0,
            "no address"
        );
    }
    let mode = path.metadata().expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Each client has its own stream.
    for _ in 0..2 {
        let mut client = std::os::unix::net::UnixStream::connect(&path).expect("connection");
        client.write_all(&count_slices()).expect("a request");
        client.shutdown(std::net::Shutdown::Write).expect("an end");
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("a reply");
        assert_eq!(counted(&reply), ["4"]);
    }

    let second = serve().wait_with_output().expect("an end");
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains("another server listens there"), "{error}");

    let mut kill = std::process::Command::new("kill");
    let killed = kill.arg(server.id().to_string()).status();
    assert!(killed.expect("kill").success());
    assert!(server.wait().expect("an end").success());
    assert!(!path.exists(), "the server removes its socket");
}
