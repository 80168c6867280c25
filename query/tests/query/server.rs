//! The server of the trace processor's protocol.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{TRACE, encode};
use ferretto_query::engine::Options;
use ferretto_query::rpc::{Processor, Server, ServerOptions};
use ferretto_wire::{Fields, encode as message};

/// Starts a server in this process.
fn server() -> SocketAddr {
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let processor = Processor::new(options, ferretto_tables::Options::default(), Vec::new())
        .expect("processor");
    let options = ServerOptions {
        address: "127.0.0.1".to_owned(),
        port: 0,
        origins: Vec::new(),
    };
    let server = Server::bind(&options, processor).expect("a port");
    let address = server.addresses()[0];
    std::thread::spawn(move || server.run());
    address
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

fn post(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> Reply {
    request(
        address,
        &format!("POST {path} HTTP/1.1"),
        headers,
        body.len(),
        body,
    )
}

fn request(address: SocketAddr, line: &str, headers: &str, length: usize, body: &[u8]) -> Reply {
    let mut client = TcpStream::connect(address).expect("connection");
    let head = format!("{line}\r\nHost: x\r\n{headers}Content-Length:{length}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("head");
    // The server may refuse the request before it has read all of it.
    let _ = client.write_all(body);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).expect("reply");
    let split = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("head")
        + 4;
    let head = String::from_utf8(bytes[..split].to_vec()).expect("text");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("status");
    let mut body = bytes[split..].to_vec();
    if head.contains("chunked") {
        body = unchunk(&body);
    }
    Reply { status, head, body }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("size");
        let size = std::str::from_utf8(&bytes[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("hexadecimal");
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
}

/// A decoded `QueryResult`. As in the Python package, all messages are decoded as one.
#[derive(Debug, Default)]
struct Table {
    names: Vec<String>,
    error: Option<String>,
    cells: Vec<String>,
    batches: usize,
    last: bool,
}

fn decode(bytes: &[u8]) -> Table {
    let mut table = Table::default();
    for field in Fields::new(bytes).flatten() {
        match field.number {
            1 => table
                .names
                .push(field.as_str_lossy().expect("text").into_owned()),
            2 => table.error = field.as_str_lossy().map(|t| t.into_owned()),
            3 => {
                table.batches += 1;
                batch(field.as_bytes().expect("batch"), &mut table);
            }
            _ => {}
        }
    }
    table
}

fn batch(bytes: &[u8], table: &mut Table) {
    let (mut kinds, mut ints, mut reals, mut texts, mut blobs) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for field in Fields::new(bytes).flatten() {
        match field.number {
            1 => kinds = field.as_bytes().expect("bytes").to_vec(),
            2 => {
                let mut rest = field.as_bytes().expect("bytes");
                while let Some((value, size)) = ferretto_wire::decode_varint(rest) {
                    ints.push(value.cast_signed());
                    rest = &rest[size..];
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            3 => {
                let bytes = field.as_bytes().expect("bytes");
                reals.extend(
                    bytes
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|b| f64::from_le_bytes(*b)),
                );
            }
            4 => blobs.push(field.as_bytes().expect("bytes").len()),
            5 => {
                let all = field.as_str_lossy().expect("text").into_owned();
                texts = all.split_terminator('\0').map(str::to_owned).collect();
            }
            6 => table.last = true,
            _ => {}
        }
    }
    assert_eq!(kinds.len() % table.names.len().max(1), 0, "whole rows");
    let (mut i, mut r, mut t, mut b) = (
        ints.into_iter(),
        reals.into_iter(),
        texts.into_iter(),
        blobs.into_iter(),
    );
    for kind in kinds {
        table.cells.push(match kind {
            1 => "NULL".to_owned(),
            2 => i.next().expect("integer").to_string(),
            3 => format!("{:e}", r.next().expect("real")),
            4 => t.next().expect("text"),
            _ => format!("blob of {}", b.next().expect("blob")),
        });
    }
}

fn query(address: SocketAddr, sql: &str) -> Table {
    let arguments = message(|m| m.string(1, sql));
    let answer = post(address, "/query", "", &arguments);
    assert_eq!(answer.status, 200);
    decode(&answer.body)
}

fn text(bytes: &[u8], field: u32) -> Option<String> {
    Fields::find(field, bytes)?
        .as_str_lossy()
        .map(|t| t.into_owned())
}

fn number(bytes: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, bytes)?.as_u64()
}

#[test]
fn query_126_the_status_names_the_trace() {
    let address = server();
    let status = post(address, "/status", "", b"").body;
    assert_eq!((number(&status, 3), text(&status, 1)), (Some(14), None));
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    let status = post(address, "/status", "", b"").body;
    assert!(text(&status, 1).expect("name").contains("MB)"));
}

#[test]
fn query_127_only_known_origins_may_send_queries() {
    let address = server();
    let foreign = post(address, "/status", "Origin: https://example.com\r\n", b"");
    assert_eq!(foreign.status, 403);
    let known = post(
        address,
        "/status",
        "Origin: https://ui.perfetto.dev\r\n",
        b"",
    );
    assert_eq!(known.status, 200);
    assert!(
        known
            .head
            .contains("Access-Control-Allow-Origin: https://ui.perfetto.dev")
    );
    assert!(known.head.contains("Vary: Origin"));
    let options = request(
        address,
        "OPTIONS /query HTTP/1.1",
        "origin:   http://localhost:10000\r\n",
        0,
        b"",
    );
    assert_eq!(options.status, 204);
    for header in [
        "Allow-Methods",
        "Allow-Headers",
        "Max-Age",
        "Allow-Private-Network",
    ] {
        assert!(
            options.head.contains(&format!("Access-Control-{header}")),
            "{header}"
        );
    }
    assert_eq!(post(address, "/nothing", "", b"").status, 404);
    assert_eq!(request(address, "nonsense", "", 0, b"").status, 400);
}

#[test]
fn query_128_results_end_with_one_last_batch() {
    let address = server();
    let one = query(address, "SELECT 1 AS a, 'x' AS b");
    assert_eq!(
        (one.names, one.cells, one.last),
        (
            vec!["a".into(), "b".into()],
            vec!["1".into(), "x".into()],
            true
        )
    );
    let none = query(address, "SELECT 1 AS a WHERE 0");
    assert_eq!(
        (none.names.len(), none.cells.len(), none.last),
        (1, 0, true)
    );
    let wrong = query(address, "SELECT nonsense FROM slice");
    assert!(wrong.last && wrong.error.expect("error").contains("'nonsense'"));
    assert!(
        query(address, "")
            .error
            .expect("error")
            .contains("No valid SQL")
    );
}

#[test]
fn query_129_values_of_all_types_are_returned_in_order() {
    let address = server();
    let table = query(
        address,
        "SELECT 'été' AS a, -1 AS b, 1e300 AS c, zeroblob(0) AS d, NULL AS e \
         UNION ALL SELECT '', 9223372036854775807, -0.5, zeroblob(3), NULL",
    );
    let mut cells = table.cells.clone();
    if cells[0].is_empty() {
        cells.rotate_left(5);
    }
    assert_eq!(
        cells,
        [
            "été",
            "-1",
            "1e300",
            "blob of 0",
            "NULL",
            "",
            "9223372036854775807",
            "-5e-1",
            "blob of 3",
            "NULL"
        ]
    );
    let many = query(
        address,
        "WITH n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 450) \
         SELECT a.x FROM n a, n b",
    );
    assert_eq!(many.cells.len(), 202_500);
    assert!(many.batches >= 4 && many.last, "{} batches", many.batches);
}

#[test]
fn query_130_large_bodies_are_refused() {
    let address = server();
    let line = "POST /parse HTTP/1.1";
    assert_eq!(request(address, line, "", (64 << 20) + 1, b"").status, 413);
}

/// Sends requests to `/rpc` and returns the messages of the reply.
fn rpc(address: SocketAddr, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let body = message(|stream| {
        for request in requests {
            stream.bytes(1, request);
        }
    });
    let answer = post(address, "/rpc", "", &body);
    Fields::new(&answer.body)
        .flatten()
        .map(|f| f.as_bytes().expect("message").to_vec())
        .collect()
}

#[test]
fn query_132_gaps_in_the_numbers_of_requests_are_fatal() {
    let address = server();
    let request = |number: i64| {
        message(|m| {
            m.int(1, number);
            m.varint(2, 10);
        })
    };
    assert_eq!(rpc(address, &[request(1), request(2)]).len(), 2);
    let replies = rpc(address, &[request(1), request(3), request(4)]);
    assert_eq!(replies.len(), 2);
    assert!(
        text(&replies[1], 5)
            .expect("error")
            .contains("(ERR:rpc_seq)")
    );
    assert_eq!(rpc(address, &[request(5), request(0), request(1)]).len(), 3);
}

#[test]
fn query_133_unknown_methods_and_missing_arguments_have_replies() {
    let address = server();
    let request = |method: u64| message(|m| m.varint(2, method));
    let replies = rpc(address, &[request(99), request(1)]);
    assert_eq!(number(&replies[0], 4), Some(99));
    let result = Fields::find(201, &replies[1])
        .and_then(|f| f.as_bytes())
        .expect("result");
    assert!(text(result, 2).expect("error").contains("missing"));
}

#[test]
fn query_134_another_trace_replaces_the_first_and_restoring_keeps_the_trace() {
    let address = server();
    let count = |address| query(address, "SELECT count(*) FROM slice").cells;
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    assert_eq!(count(address), ["4"]);
    query(address, "CREATE PERFETTO TABLE mine AS SELECT 1 AS a");
    assert_eq!(query(address, "SELECT a FROM mine").cells, ["1"]);
    post(address, "/restore_initial_tables", "", b"");
    assert!(query(address, "SELECT a FROM mine").error.is_some());
    assert_eq!(count(address), ["4"]);
    post(address, "/parse", "", b"");
    post(address, "/notify_eof", "", b"");
    assert_eq!(count(address), ["0"]);
}

#[test]
fn query_135_packages_of_modules_are_registered() {
    let address = server();
    let register = |replace: bool| {
        message(|m| {
            m.varint(2, 13);
            m.nested(108, |args| {
                args.string(1, "mine");
                args.nested(2, |module| {
                    module.string(1, "mine.a");
                    module.string(2, "CREATE PERFETTO TABLE from_module AS SELECT 5 AS x");
                });
                args.bool(3, replace);
            });
        })
    };
    let error = |reply: &[u8]| {
        Fields::find(211, reply)
            .and_then(|f| f.as_bytes())
            .and_then(|b| text(b, 1))
    };
    assert_eq!(error(&rpc(address, &[register(false)])[0]), None);
    let table = query(
        address,
        "INCLUDE PERFETTO MODULE mine.a; SELECT x FROM from_module",
    );
    assert_eq!(table.cells, ["5"]);
    assert!(error(&rpc(address, &[register(false)])[0]).is_some());
    assert_eq!(error(&rpc(address, &[register(true)])[0]), None);
}

/// A WebSocket client.
struct Socket(TcpStream);

impl Socket {
    /// Sends a handshake, and returns the head of the reply.
    fn open(address: SocketAddr, headers: &str) -> (Self, String) {
        let mut client = TcpStream::connect(address).expect("connection");
        let head = format!("GET /websocket HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        client.write_all(head.as_bytes()).expect("head");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("head");
            answer.extend(byte);
        }
        (Self(client), String::from_utf8(answer).expect("text"))
    }

    /// Sends a frame. Its first byte is its kind, with a flag for the end of a message.
    fn send(&mut self, first: u8, payload: &[u8]) {
        let mask = [0x12, 0x34, 0x56, 0x78];
        let mut frame = vec![first];
        match u8::try_from(payload.len()) {
            Ok(length @ 0..126) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        self.0.write_all(&frame).expect("a frame");
    }

    /// Returns the kind and the payload of the next frame.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let length = match head[1] {
            126 => {
                let mut bytes = [0; 2];
                self.0.read_exact(&mut bytes).expect("a length");
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.0.read_exact(&mut bytes).expect("a length");
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.0.read_exact(&mut payload).expect("a payload");
        (head[0], payload)
    }
}

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const PAGE: &str = "Origin: https://ui.perfetto.dev\r\n";

#[test]
fn query_131_websocket_carries_the_stream_in_frames_of_any_size() {
    let address = server();
    let (_, refused) = Socket::open(address, UPGRADE);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let foreign = format!("{UPGRADE}Origin: https://example.org\r\n");
    let (_, refused) = Socket::open(address, &foreign);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let old = format!("{PAGE}{}", UPGRADE.replace("13", "8"));
    let (_, refused) = Socket::open(address, &old);
    assert!(refused.starts_with("HTTP/1.1 505 "), "{refused}");
    let short = format!("{PAGE}{}", UPGRADE.replace("ZQ==", ""));
    let (_, refused) = Socket::open(address, &short);
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");

    let (mut socket, head) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let accepted = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    assert!(head.contains(accepted), "{head}");
    // A trace, its end and a query, in fragments that do not end with the messages.
    let trace = encode(TRACE);
    let requests = message(|stream| {
        stream.nested(1, |m| {
            m.int(1, 1);
            m.varint(2, 1);
            m.bytes(101, &trace);
        });
        stream.nested(1, |m| {
            m.int(1, 2);
            m.varint(2, 2);
        });
        stream.nested(1, |m| {
            m.int(1, 3);
            m.varint(2, 3);
            m.nested(103, |query| query.string(1, "SELECT count(*) FROM slice"));
        });
    });
    let (first, rest) = requests.split_at(7);
    let (second, third) = rest.split_at(rest.len() / 2);
    socket.send(0x02, first);
    socket.send(0x89, b"still there?");
    socket.send(0x00, second);
    socket.send(0x80, third);
    assert_eq!(socket.receive(), (0x8a, b"still there?".to_vec()));
    let mut replies = Vec::new();
    while replies.len() < 3 {
        let (kind, payload) = socket.receive();
        assert_eq!(kind, 0x82);
        let fields = Fields::new(&payload).flatten();
        replies.extend(fields.map(|f| f.as_bytes().expect("a message").to_vec()));
    }
    let result = Fields::find(203, &replies[2]).and_then(|f| f.as_bytes());
    assert_eq!(decode(result.expect("a result")).cells, ["4"]);
    socket.send(0x88, &1000u16.to_be_bytes());
    assert_eq!(socket.receive(), (0x88, 1000u16.to_be_bytes().to_vec()));

    // Frames without a mask or with an enormous length close the connection.
    let (mut socket, _) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    socket.0.write_all(&[0x82, 0x01]).expect("a frame");
    assert_eq!(socket.receive(), (0x88, 1002u16.to_be_bytes().to_vec()));
    let (mut socket, _) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    let endless = [&[0x82, 0xff][..], &u64::MAX.to_be_bytes()].concat();
    socket.0.write_all(&endless).expect("a frame");
    assert_eq!(socket.receive(), (0x88, 1009u16.to_be_bytes().to_vec()));
}

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
