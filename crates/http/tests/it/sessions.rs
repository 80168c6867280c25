//! Sessions over WebSocket and Unix sockets.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use ferretto_http::Limits;

use crate::common::{Echoing, until};

const HANDSHAKE: &str = "GET /websocket HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Returns a frame with a mask that changes nothing.
fn frame(first: u8, payload: &str) -> Vec<u8> {
    let mut frame = vec![first, 0x80 | payload.len() as u8, 0, 0, 0, 0];
    frame.extend(payload.bytes());
    frame
}

#[test]
fn frames_are_a_stream_until_the_session_ends() {
    let server = Echoing::new(Limits::default());
    let old = HANDSHAKE.replace("13", "8");
    let old = old.replace("Upgrade\r\nSec", "close\r\nSec");
    assert!(server.ask(old.as_bytes()).starts_with("HTTP/1.1 505 "));
    let mut socket = server.connect();
    socket.write_all(HANDSHAKE.as_bytes()).expect("written");
    let head = until(&mut socket, "\r\n\r\n");
    let accepted = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains(accepted));
    socket.write_all(&frame(0x89, "ping")).expect("written");
    socket.write_all(&frame(0x02, "first")).expect("written");
    socket.write_all(&frame(0x80, "last.")).expect("written");
    let mut all = Vec::new();
    socket.read_to_end(&mut all).expect("the end");
    let mut expected = b"\x8a\x04ping".to_vec();
    expected.extend(b"\x82\x05FIRST\x82\x05LAST.\x88\x00");
    assert_eq!(all, expected);
}

#[test]
fn a_unix_socket_carries_sessions() {
    let folder = std::env::temp_dir().join(format!("ferretto-http-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = Echoing::with(Limits::default(), Some(listener));
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.write_all(b"abc").expect("written");
    until(&mut stream, "ABC");
    stream.write_all(b"end.").expect("written");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shut down");
    until(&mut stream, "END.");
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    drop(server);
    std::fs::remove_dir_all(&folder).expect("removed");
}
