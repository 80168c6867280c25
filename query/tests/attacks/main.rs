//! Attacks on the server of queries, beside an honest client. The measurements are printed
//! (`cargo test --test attacks -- --nocapture`).
//!
//! If the tests run as root, some attackers are another user.

#[allow(dead_code, reason = "the attacks use a part")]
#[path = "../query/server/client.rs"]
mod client;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use ferretto_testing::attack::{self, Honest, NOBODY, Process, line_after, measure, this_program};
use ferretto_wire::encode;

use self::client::{post, query, request};

/// Set to the address in the processes of attackers.
const ADDRESS_VARIABLE: &str = "FERRETTO_TEST_ADDRESS";

/// A query without an end.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                       SELECT max(x) FROM n";

/// A server with a table of its user.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferretto-query"));
        command.args(["--serve", "--port", "0"]).args(options);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().expect("the program"));
        let mut output = process.0.stderr.take().expect("a pipe");
        let address = line_after(&mut output, "listening on http://");
        // Its later output must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let server = Self {
            process,
            address: address.parse().expect("an address"),
        };
        query(
            server.address,
            "CREATE PERFETTO TABLE mine AS SELECT 1 AS a",
        );
        server
    }

    /// Returns a client that uses the table. Its requests may be refused with an error in the
    /// reply only if others use the session all the time.
    fn honest(&self) -> Honest {
        let address = self.address;
        Honest::start(move || {
            let table = query(address, "SELECT a FROM mine");
            assert_eq!(table.cells, ["1"], "{:?}", table.error);
        })
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("a connection")
    }

    /// Sends an endless query, and returns once the reply has begun.
    fn begin_endless(&self) -> TcpStream {
        let mut stream = self.connect();
        let body = encode(|m| m.string(1, ENDLESS));
        let head = format!(
            "POST /query HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("written");
        stream.write_all(&body).expect("written");
        stream.read_exact(&mut [0; 15]).expect("a reply");
        stream
    }
}

#[test]
fn endless_queries_end_with_their_clients() {
    let server = Server::start(&[]);
    let clients = vec![("honest!", server.honest())];
    let attack = || {
        let begin = Instant::now();
        while begin.elapsed() < attack::time() {
            drop(server.begin_endless());
        }
    };
    measure("endless queries", &server.process, 8, clients, attack);
}

#[test]
fn endless_queries_end_at_the_timeout() {
    let server = Server::start(&["--timeout", "100"]);
    let clients = vec![("honest", server.honest())];
    let attack = || {
        // Each waits for the end of its query.
        let mut stream = server.begin_endless();
        let mut reply = Vec::new();
        while !reply.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a reply");
            reply.extend(byte);
        }
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.contains("took longer than"), "{reply}");
        // Others hold the session in turn.
        (0..4).map(|_| server.begin_endless()).collect::<Vec<_>>()
    };
    measure(
        "endless queries that stay",
        &server.process,
        8,
        clients,
        attack,
    );
}

#[test]
fn unfinished_bodies_share_a_quarter_of_the_memory() {
    const MEMORY: u64 = 512;
    const BODY: usize = 64 << 20;
    let server = Server::start(&["--memory-limit", "512M"]);
    let clients = vec![("honest!", server.honest())];
    let attack = || {
        let unfinished = |_| {
            let mut stream = server.connect();
            let head = format!(
                "POST /parse HTTP/1.1\r\nHost: {}\r\nContent-Length: {BODY}\r\n\r\n",
                server.address
            );
            let _ = stream.write_all(head.as_bytes());
            // The server may refuse it meanwhile.
            let _ = stream.write_all(&vec![0; BODY - 1]);
            stream
        };
        (0..24).map(unfinished).collect::<Vec<_>>()
    };
    let peak = measure("unfinished bodies", &server.process, 32, clients, attack);
    // A body that grows is copied once.
    assert!(peak < MEMORY / 2 + 64, "{peak} MiB");
}

#[test]
fn idle_connections_take_no_threads() {
    let server = Server::start(&[]);
    let clients = vec![("honest!", server.honest())];
    let before = server.process.threads();
    let attack = || {
        let idle = |number| {
            let mut stream = server.connect();
            if number % 2 == 0 {
                let _ = stream.write_all(b"POST /query HTTP/1.1\r\nContent-");
            }
            stream
        };
        // No more at a time than this process may have open.
        let mut open = Vec::new();
        for number in 0..3000 {
            open.push(idle(number));
            if open.len() > 800 {
                open.remove(0);
            }
        }
        open
    };
    measure("idle connections", &server.process, 8, clients, attack);
    let after = server.process.threads();
    assert!(after <= before + 16, "{before} and {after} threads");
}

/// An attacker, in a process of its own: tries to change the session again and again.
#[test]
fn attacker_main() {
    let Ok(address) = std::env::var(ADDRESS_VARIABLE) else {
        return;
    };
    let address: SocketAddr = address.parse().expect("an address");
    let begin = Instant::now();
    while begin.elapsed() < attack::time() {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        // The connection may end at once. Every other one is closed before the server sees it.
        let head = format!("POST /restore_initial_tables HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let mut reply = Vec::new();
        if begin.elapsed().as_nanos().is_multiple_of(2) {
            let _ = stream.read_to_end(&mut reply);
        }
        assert_eq!(reply, b"", "the server replies to others");
    }
}

#[test]
fn other_users_cannot_change_a_session() {
    let server = Server::start(&[]);
    let clients = vec![("honest", server.honest())];
    let attack = || {
        let mut attacker = this_program("attacker_main");
        attacker.env(ADDRESS_VARIABLE, server.address.to_string());
        if let Some(mut attacker) = Process::of_user(attacker, NOBODY) {
            assert!(attacker.0.wait().expect("an end").success());
        }
    };
    measure("another user", &server.process, 8, clients, attack);
}

#[test]
fn pages_cannot_change_a_session() {
    let server = Server::start(&[]);
    let (address, port) = (server.address, server.address.port());
    let image = |headers: &str| {
        let line = "GET /restore_initial_tables HTTP/1.1";
        request(address, line, headers, 0, b"").status
    };
    assert_eq!(image("Sec-Fetch-Site: cross-site\r\n"), 403);
    // A browser without this header.
    assert_eq!(image(""), 405);
    let form = |headers: &str| post(address, "/restore_initial_tables", headers, b"").status;
    assert_eq!(form("Origin: https://evil.example\r\n"), 403);
    assert_eq!(form("Origin: null\r\n"), 403);
    // A name of the page that resolves to this machine.
    let mut stream = server.connect();
    let head = format!(
        "POST /restore_initial_tables HTTP/1.1\r\nHost: evil.example:{port}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("written");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
    assert_eq!(query(address, "SELECT a FROM mine").cells, ["1"]);
}
