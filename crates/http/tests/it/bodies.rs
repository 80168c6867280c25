//! The memory of bodies.

use std::io::Write as _;
use std::net::TcpStream;

use ferretto_http::{Budget, Limits};

use crate::common::{Echoing, rest, until};

const MIB: usize = 1 << 20;

fn begin(server: &Echoing, length: usize) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "POST / HTTP/1.1\r\nContent-Length: {length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("written");
    until(&mut stream, "Continue\r\n\r\n");
    stream
}

#[test]
fn unfinished_bodies_share_a_budget_and_give_way() {
    let bodies = Budget::new(8 * MIB as u64);
    let limits = Limits {
        body: 4 * MIB,
        bodies: bodies.clone(),
        ..Limits::default()
    };
    let server = Echoing::new(limits);
    // Announced bodies take no memory.
    let _announced: Vec<_> = (0..24).map(|_| begin(&server, 4 * MIB)).collect();
    let mut unfinished = Vec::new();
    for _ in 0..12 {
        let mut stream = begin(&server, 4 * MIB);
        // The server may refuse it meanwhile.
        let _ = stream.write_all(&vec![b'x'; 4 * MIB - 1]);
        unfinished.push(stream);
        assert!(bodies.used() <= 8 * MIB as u64);
    }
    // Small bodies need no share of it.
    let small =
        server.ask(b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nsmall");
    assert!(small.ends_with("small"), "{small}");
    // A body without progress gives way to one that arrives, after a second.
    let mut answer = String::new();
    while !answer.starts_with("HTTP/1.1 200 ") {
        let mut stream = begin(&server, 3 * MIB);
        let sent = stream.write_all(&vec![b'y'; 3 * MIB]);
        answer = rest(&mut stream);
        assert!(
            sent.is_err()
                || answer.starts_with("HTTP/1.1 200 ")
                || answer.contains(" 503 ")
                || answer.is_empty()
        );
        std::thread::yield_now();
    }
    assert!(answer.ends_with("yyy"));
    drop(unfinished);
    drop(server);
    assert_eq!(bodies.used(), 0);
}
