//! Attacks on the viewer's server from processes of another user, beside an open page and a new
//! one. The measurements are printed (`cargo test -p ferretto-view --test attacks -- --nocapture`).
//!
//! If the tests run as root, the attackers are another user.

#[path = "../it/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ferretto_http::{Peer, Users};
use ferretto_testing::attack::{self, Honest, NOBODY, Process, line_after, measure, this_program};
use ferretto_view::Server;

use crate::common::{json, slice};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Set to the port in the process of the server and in those of attackers.
const SERVER_VARIABLE: &str = "FERRETTO_TEST_SERVER";
const PORT_VARIABLE: &str = "FERRETTO_TEST_PORT";

/// The server, in a process of its own.
#[test]
fn server_main() {
    if std::env::var_os(SERVER_VARIABLE).is_none() {
        return;
    }
    let users = Users::own();
    let permission = move |peer| matches!(peer, Peer::User(user) if users.contain(user));
    let view = json(&slice(1, "s", 0, 5));
    let server = Server::bind(view, None, TOKEN, Box::new(permission)).expect("a server");
    println!("\naddress {}", server.address());
    server.run().expect("served");
}

/// An attacker, in a process of its own: keeps hundreds of connections, and makes new ones as fast
/// as it can.
#[test]
fn attacker_main() {
    let Ok(port) = std::env::var(PORT_VARIABLE) else {
        return;
    };
    let port: u16 = port.parse().expect("a port");
    let until = Instant::now() + attack::time();
    let threads: Vec<_> = (0..2)
        .map(|_| std::thread::spawn(move || flood(port, until)))
        .collect();
    for thread in threads {
        thread.join().expect("an attacker");
    }
}

fn flood(port: u16, until: Instant) {
    let mut open = VecDeque::new();
    while Instant::now() < until {
        if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
            open.push_back(stream);
        }
        if open.len() > 200 {
            open.pop_front();
        }
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    let time = Some(Duration::from_secs(60));
    stream.set_read_timeout(time).expect("a timeout");
    stream
}

/// Requests the trace on an open connection.
fn ask(stream: &mut TcpStream, port: u16) {
    let request = format!("GET /{TOKEN}/trace HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a reply");
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let length = head.split("Content-Length: ").nth(1).expect("a length");
    let length = length.split("\r\n").next().and_then(|it| it.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    stream.read_exact(&mut body).expect("a body");
}

#[test]
fn a_flood_of_another_user_delays_no_page() {
    let mut server = this_program("server_main");
    server.env(SERVER_VARIABLE, "1").stdout(Stdio::piped());
    let mut server = Process(server.spawn().expect("a server"));
    let address = line_after(server.0.stdout.as_mut().expect("a pipe"), "address ");
    let port: u16 = address
        .split([':', '/'])
        .nth(4)
        .and_then(|it| it.parse().ok())
        .expect("a port");
    let mut page = connect(port);
    let mut events = connect(port);
    let request = format!("GET /{TOKEN}/alive HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    events.write_all(request.as_bytes()).expect("written");
    let clients = vec![
        ("open page!", Honest::start(move || ask(&mut page, port))),
        (
            "new page",
            Honest::start(move || ask(&mut connect(port), port)),
        ),
    ];
    let flood = || {
        let mut attacker = this_program("attacker_main");
        attacker.env(PORT_VARIABLE, port.to_string());
        let Some(mut attacker) = Process::of_user(attacker, NOBODY) else {
            return;
        };
        assert!(attacker.0.wait().expect("an end").success());
    };
    measure("flood", &server, 4, clients, flood);
    assert!(server.threads() <= 16, "{} threads", server.threads());
    // The page is still open.
    events.shutdown(Shutdown::Write).expect("open");
    let mut received = Vec::new();
    events.read_to_end(&mut received).expect("open");
    assert!(received.ends_with(b":\n\n"), "{received:?}");
}
