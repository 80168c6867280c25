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

use self::client::{post, query, request, try_query};

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
            // A connection whose request has not arrived gives way to others: like a browser, the
            // client asks again, and the time counts.
            let mut attempts = (0..1000).filter_map(|_| try_query(address, "SELECT a FROM mine"));
            let table = attempts.next().expect("a reply");
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
    let server = Server::start(&["--timeout", "10"]);
    let clients = vec![("honest!", server.honest())];
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
        // Others hold the session in turn, each until the timeout.
        let begin = Instant::now();
        let mut held = Vec::new();
        while begin.elapsed() < attack::time() {
            held = (0..3).map(|_| server.begin_endless()).collect::<Vec<_>>();
        }
        held
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
    let clients = vec![("honest!", server.honest())];
    let attack = || {
        let mut attacker = this_program("attacker_main");
        attacker.env(ADDRESS_VARIABLE, server.address.to_string());
        if let Some(mut attacker) = Process::of_user(attacker, NOBODY) {
            assert!(attacker.0.wait().expect("an end").success());
        }
    };
    measure(
        "resets of another user",
        &server.process,
        8,
        clients,
        attack,
    );
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

/// The memory limit of the tests of statements in MiB.
const LIMIT: u64 = 64;

/// Statements that would take more memory than there is.
fn statements() -> Vec<(&'static str, String)> {
    let numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100000000)";
    let all = "generate_series(1, 100000) a, generate_series(1, 100000) b";
    let of = |sql: &str| format!("SELECT count(*) FROM ({sql})");
    let overlapping = format!(
        "CREATE PERFETTO TABLE i AS {numbers} SELECT n AS id, n AS ts, 1000000 AS dur FROM c LIMIT 100000;
         SELECT count(*) FROM _interval_intersect!((i, i), ())"
    );
    let self_overlapping = "SELECT count(*) FROM interval_self_intersect!((
         SELECT value AS id, value AS ts, 1000000 AS dur FROM generate_series(1, 100000)))";
    let doubled = format!(
        "SELECT length({}'x')",
        "replace(".repeat(40) + "'xxxxxxxxxx'" + &", 'x', 'xxxxxxxxxx')".repeat(40) + " || "
    );
    vec![
        (
            "sorting 10^10 rows",
            of(&format!(
                "SELECT a.value + b.value AS x FROM {all} ORDER BY random()"
            )),
        ),
        (
            "distinct values",
            of(&format!(
                "SELECT DISTINCT a.value * 100000 + b.value FROM {all}"
            )),
        ),
        (
            "groups",
            of(&format!(
                "SELECT count(*) FROM {all} GROUP BY a.value * 100000 + b.value"
            )),
        ),
        (
            "a union",
            of(&format!(
                "SELECT random() FROM {all} UNION SELECT random() FROM {all}"
            )),
        ),
        (
            "window functions",
            of(&format!(
                "SELECT row_number() OVER (ORDER BY random()) FROM {all}"
            )),
        ),
        (
            "recursion",
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) SELECT max(n) FROM c"
                .into(),
        ),
        (
            "a table",
            format!("CREATE TABLE t AS SELECT random() AS x FROM {all}"),
        ),
        (
            "a Perfetto table",
            format!("CREATE PERFETTO TABLE p AS SELECT random() AS x FROM {all}"),
        ),
        (
            "an index",
            "CREATE PERFETTO TABLE q AS SELECT value AS x FROM generate_series(1, 10000000)".into(),
        ),
        ("overlapping intervals", overlapping),
        ("intervals of one table", self_overlapping.into()),
        (
            "group_concat",
            format!("SELECT length(group_concat(printf('%.10000c', a.value))) FROM {all}"),
        ),
        (
            "json_group_array",
            format!("SELECT length(json_group_array(printf('%.10000c', a.value))) FROM {all}"),
        ),
        (
            "json_group_object",
            format!("SELECT length(json_group_object(printf('%.10000c', a.value), 1)) FROM {all}"),
        ),
        (
            "printf",
            "SELECT length(printf('%.*c', 2000000000, 'x'))".into(),
        ),
        (
            "a wide printf",
            "SELECT length(printf('%2000000000d', 1))".into(),
        ),
        ("zeroblob", "SELECT hex(zeroblob(900000000))".into()),
        ("randomblob", "SELECT length(randomblob(900000000))".into()),
        (
            "replace",
            "SELECT length(replace(printf('%.1000000c', 'x'), 'x', printf('%.1000c', 'y')))".into(),
        ),
        ("nested replace", doubled),
        (
            "a regular expression",
            "SELECT 'x' REGEXP 'x{1000}{1000}{1000}'".into(),
        ),
        ("quotes", "SELECT length(quote(zeroblob(60000000)))".into()),
        (
            "base64",
            "SELECT length(base64_encode(zeroblob(60000000)))".into(),
        ),
        (
            "JSON",
            "SELECT length(json_array(printf('%.30000000c', char(1))))".into(),
        ),
        (
            "rows",
            format!("{numbers} SELECT __perfetto_rows(n) FROM c"),
        ),
        (
            "last_non_null",
            format!("{numbers} SELECT last_non_null(n) FROM c"),
        ),
        ("a long text", format!("SELECT 1{}", " + 1".repeat(1 << 20))),
        ("values", format!("VALUES{}(1)", "(1),".repeat(1 << 20))),
        (
            "cardinality",
            "SELECT cardinality(range(1, 2000000000))".into(),
        ),
        ("repeat", "SELECT length(repeat('x', 2000000000))".into()),
    ]
}

#[test]
fn statements_stay_within_the_memory_limit() {
    let server = Server::start(&["--memory-limit", "64M", "--timeout", "5000"]);
    for (name, sql) in statements() {
        let mut error = None;
        let begin = Instant::now();
        let peak = measure(name, &server.process, 2 * LIMIT, Vec::new(), || {
            error = query(server.address, &sql).error;
        });
        let error = error.expect(name);
        println!(
            "  {:.0} ms: {}",
            begin.elapsed().as_secs_f64() * 1e3,
            error.lines().next().unwrap_or_default()
        );
        // A list that grows is copied once. Earlier statements leave gaps in the memory.
        assert!(peak < 3 * LIMIT + 32, "{name}: {peak} MiB");
        query(
            server.address,
            "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS p; DROP TABLE IF EXISTS q; DROP TABLE IF EXISTS i",
        );
    }
}

#[test]
fn registered_modules_are_within_the_memory_limit() {
    let server = Server::start(&["--memory-limit", "64M"]);
    let register = |number: usize| {
        let module = encode(|m| {
            m.string(1, &format!("a.b{number}"));
            m.string(2, &format!("-- {}", "x".repeat(1 << 20)));
        });
        let arguments = encode(|m| m.bytes(2, &module));
        let message = encode(|m| {
            m.varint(2, 13);
            m.bytes(108, &arguments);
        });
        let body = encode(|m| m.bytes(1, &message));
        let reply = post(server.address, "/rpc", "", &body);
        String::from_utf8_lossy(&reply.body).into_owned()
    };
    let mut refused = 0;
    let peak = measure("modules", &server.process, LIMIT, Vec::new(), || {
        for number in 0..100 {
            refused +=
                u64::from(register(number).contains("The registered modules have more than"));
        }
    });
    assert_eq!(refused, 93);
    assert!(peak < LIMIT, "{peak} MiB");
    // Each may be replaced.
    assert!(!register(3).contains("have more than"));
    assert_eq!(query(server.address, "SELECT a FROM mine").cells, ["1"]);
}
