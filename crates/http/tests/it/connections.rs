//! Connections, their limits, and their ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use ferretto_http::Limits;

use crate::common::{Echoing, PATIENCE, rest, until};

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let server = Echoing::new(Limits::default());
    let one = "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\none";
    let two = "GET /chunks HTTP/1.1\r\n\r\n";
    let three = "POST /b HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthree";
    let mut stream = server.connect();
    // In pieces that do not end with the requests.
    let all = [one, two, three].concat();
    for piece in all.as_bytes().chunks(7) {
        stream.write_all(piece).expect("written");
    }
    let all = rest(&mut stream);
    assert_eq!(all.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{all}");
    let [one, two] = ["\r\n\r\none", "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"]
        .map(|part| all.find(part).unwrap_or_else(|| panic!("{all}")));
    assert!(one < two && all.ends_with("\r\n\r\nthree"), "{all}");
    // The client waits with its body.
    let mut stream = server.connect();
    let head = "POST / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("written");
    until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"late").expect("written");
    until(&mut stream, "\r\n\r\nlate");
}

#[test]
fn malformed_and_refused_requests_end_the_connection() {
    let server = Echoing::new(Limits::default());
    for (request, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET /refused HTTP/1.1\r\n\r\n".to_owned(), 403),
        (format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(20_000)), 431),
        (
            "POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n".to_owned(),
            413,
        ),
    ] {
        let answer = server.ask(request.as_bytes());
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{request}: {answer}");
        assert!(answer.contains("Connection: close\r\n"));
    }
    // Others are served after a panic.
    assert_eq!(server.get("/panic"), "");
    assert!(server.get("/chunks").ends_with("0\r\n\r\n"));
}

/// Sends a request that is certainly admitted.
fn begin(server: &Echoing, path: &str) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("written");
    until(&mut stream, "Continue\r\n\r\n");
    stream.write_all(b"x").expect("written");
    stream
}

#[test]
fn a_handler_learns_that_its_client_is_gone() {
    let server = Echoing::new(Limits::default());
    drop(begin(&server, "/gone"));
    assert_eq!(server.gone.recv_timeout(PATIENCE), Ok("client"));
}

#[test]
fn a_client_that_does_not_read_its_reply_is_gone() {
    let server = Echoing::new(Limits {
        write: Duration::from_millis(20),
        ..Limits::default()
    });
    let _unread = begin(&server, "/large");
    assert_eq!(server.gone.recv_timeout(PATIENCE), Ok("slow"));
    assert!(server.get("/").starts_with("HTTP/1.1 200 "));
}

#[test]
fn new_connections_replace_silent_ones_and_never_busy_ones() {
    let limits = Limits {
        strangers: 8,
        admitted: 4,
        threads: 2,
        ..Limits::default()
    };
    let server = Echoing::new(limits);
    let mut busy = begin(&server, "/wait");
    let mut silent: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    assert_eq!(silent[0].read(&mut [0]).expect("the end"), 0);
    // Kept open after a request: the longest idle one gives way.
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect();
        stream
            .write_all(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok")
            .expect("written");
        until(&mut stream, "\r\n\r\nok");
        idle.push(stream);
    }
    assert_eq!(idle[0].read(&mut [0]).expect("the end"), 0);
    assert!(server.answering_threads() <= 2 * 16, "a few for each test");
    server.shared.free();
    assert!(rest(&mut busy).ends_with("free"));
    // All connections have requests.
    let server = Echoing::new(Limits {
        admitted: 1,
        ..Limits::default()
    });
    let mut busy = begin(&server, "/wait");
    assert!(server.get("/").starts_with("HTTP/1.1 503 "));
    server.shared.free();
    until(&mut busy, "free");
}

#[test]
fn late_requests_are_closed() {
    let limits = Limits {
        arrival: Duration::from_millis(20),
        idle: Duration::from_millis(20),
        ..Limits::default()
    };
    let server = Echoing::new(limits);
    for sent in [
        "",
        "GET / HT",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc",
        "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let answer = server.ask(sent.as_bytes());
        assert_eq!(answer.ends_with("ok"), sent.ends_with("ok"), "{answer}");
    }
}

#[test]
fn events_are_sent_to_those_who_do_not_know_them() {
    let server = Echoing::new(Limits::default());
    let open = |known: u64| {
        let mut stream = server.connect();
        let request = format!("GET /events?known={known} HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        until(&mut stream, "\r\n\r\n:\n\n");
        stream
    };
    let (mut old, mut new) = (open(0), open(7));
    server.handle.event("more", 7);
    server.handle.event("more", 8);
    until(&mut old, "event: more\ndata: 7\n\nevent: more\ndata: 8\n\n");
    assert_eq!(until(&mut new, "\n\n"), "event: more\ndata: 8\n\n");
    // Later ones learn what has happened.
    let mut late = open(3);
    assert_eq!(until(&mut late, "\n\n"), "event: more\ndata: 8\n\n");
    drop(old);
    assert_eq!(server.gone.recv_timeout(PATIENCE), Ok("events"));
    // The end of the server closes the others.
    drop(server.running);
    assert_eq!(rest(&mut new), "");
}
