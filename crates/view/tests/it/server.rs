//! The server with its own page and with hostile clients, over real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{Frame, json, slice};
use ferretto_http::{Peer, Permission};
use ferretto_tables::{Continue, Options};
use ferretto_view::{Cache, Server};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// A time limit that also suffices on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    port: u16,
    ended: mpsc::Receiver<()>,
}

impl Running {
    fn new() -> Self {
        Self::with_permission(Box::new(|_| true))
    }

    fn with_permission(permission: Permission) -> Self {
        Self::start(Self::bind(permission))
    }

    /// Starts a server that runs SQL with this program.
    fn with_queries(program: &str) -> Self {
        let server = Self::bind(Box::new(|_| true));
        Self::start(server.with_queries(program.as_ref(), "trace".as_ref()))
    }

    fn bind(permission: Permission) -> Server {
        let view = json(&slice(1, "s", 0, 5));
        Server::bind(view, None, TOKEN, permission).expect("server")
    }

    fn start(server: Server) -> Self {
        let server = server.with_grace(Duration::from_millis(10));
        let address = server.address();
        let port = address.split(['/', ':']).nth(4).expect("port");
        let port = port.parse().expect("port");
        assert_eq!(address, format!("http://127.0.0.1:{port}/{TOKEN}/"));
        let (tell, ended) = mpsc::channel();
        thread::spawn(move || {
            server.run().expect("run");
            let _ = tell.send(());
        });
        Self { port, ended }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream
    }

    /// Returns status and body of the reply to a request with these headers.
    fn ask(&self, line: &str, headers: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = self.connect();
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).expect("write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read");
        let head = answer
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .expect("head");
        let status = std::str::from_utf8(&answer[9..12]).expect("status");
        (status.parse().expect("status"), answer.split_off(head + 4))
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\n", self.port)
    }

    fn get(&self, name: &str) -> (u16, Vec<u8>) {
        self.ask(&format!("GET /{TOKEN}/{name}"), &self.host(), "")
    }

    fn post(&self, name: &str, body: &str) -> (u16, Vec<u8>) {
        self.ask(&format!("POST /{TOKEN}/{name}"), &self.host(), body)
    }
}

#[test]
fn a_damaged_index_is_replaced_by_the_trace_while_it_is_shown() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("trace");
    let slices: Vec<String> = (0..3000).map(|n| slice(1, "s", n * 40, 30)).collect();
    let content = format!(
        "{{\"traceEvents\":[{}]}}",
        slices.concat().trim_end_matches(',')
    );
    std::fs::write(&path, content).expect("trace");
    let indexes = folder.path().join("cache");
    let cache = Cache::new(indexes.clone()).with_least(0);
    let open = || {
        let opened = cache.open(&path, &Options::default(), |_| Continue::Yes);
        opened.expect("trace")
    };
    let answer = |view| {
        let bind = Server::bind(view, None, TOKEN, Box::new(|_| true));
        let server = Running::start(bind.expect("server"));
        let body = "{\"nodes\":[0,1,2,3],\"from\":0,\"to\":1e9,\"level\":0}";
        server.post("tiles", body)
    };
    let (imported, new) = open();
    new.expect("no index").write(&imported).expect("index");
    let expected = answer(imported);
    assert_eq!(expected.0, 200);
    let mut entries = std::fs::read_dir(&indexes).expect("folder");
    let index = entries.next().expect("index").expect("index").path();
    let whole = std::fs::read(&index).expect("index");
    let mut replaced = 0;
    for at in (0..whole.len()).step_by(16 << 10) {
        let mut content = whole.clone();
        content[at] ^= 1;
        std::fs::write(&index, content).expect("index");
        let (view, new) = open();
        if new.is_none() {
            assert!(answer(view) == expected, "{at}");
            replaced += usize::from(!index.exists());
        }
    }
    assert!(replaced > 0, "some damage is found only by requests");
}

#[test]
fn requests_of_the_page_are_answered() {
    let server = Running::new();
    let (status, page) = server.get("");
    assert_eq!(status, 200);
    assert!(page.starts_with(b"<!") && page.len() > 100);
    // Includes the data of the first picture.
    let page = String::from_utf8(page).expect("text");
    for kind in ["trace", "tiles"] {
        let frame =
            format!("<script type=\"text/plain\" class=\"ferretto-first\" data-kind=\"{kind}\">");
        assert_eq!(page.matches(&frame).count(), 1, "{kind}");
    }
    let (status, trace) = server.get("trace");
    assert_eq!(
        (status, Frame::read(&trace).header["name"].as_str()),
        (200, Some("test"))
    );
    let origin = format!(
        "{}Origin: http://127.0.0.1:{}\r\n",
        server.host(),
        server.port
    );
    let line = format!("POST /{TOKEN}/tiles");
    let body = "{\"nodes\":[0,1,2,3],\"from\":0,\"to\":1e9,\"level\":0}";
    let (status, tiles) = server.ask(&line, &origin, body);
    assert_eq!((status, Frame::read(&tiles).column("rows").len()), (200, 4));
    let named = format!("Host: localhost:{}\r\n", server.port);
    assert_eq!(
        server.ask(&format!("GET /{TOKEN}/trace"), &named, "").0,
        200
    );
    for (request, status) in [
        ("details?node=9999&id=0", 404),
        ("details", 404),
        ("next?node=0&id=0&to=nowhere", 400),
        ("search?text=s&in=elsewhere", 400),
        ("nothing", 404),
    ] {
        assert_eq!(server.get(request).0, status, "{request}");
    }
    for body in [
        "",
        "[",
        "{}",
        "{\"from\":0,\"to\":1,\"nodes\":7}",
        "{\"from\":0,\"to\":1,\"nodes\":[-1]}",
    ] {
        assert_eq!(server.ask(&line, &server.host(), body).0, 400, "{body}");
    }
    // Several requests on one connection.
    let mut stream = server.connect();
    let request = format!("GET /{TOKEN}/trace HTTP/1.1\r\n{}\r\n", server.host());
    stream
        .write_all(request.repeat(3).as_bytes())
        .expect("write");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shutdown");
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).expect("read");
    let found = answers
        .windows(15)
        .filter(|w| *w == b"HTTP/1.1 200 OK")
        .count();
    assert_eq!(found, 3);
}

#[test]
fn requests_without_token_or_from_other_pages_are_refused() {
    let server = Running::new();
    let here = server.host();
    let wrong_token = TOKEN.replace('0', "1");
    for line in [
        "GET /".to_owned(),
        "GET /trace".to_owned(),
        format!("GET /{wrong_token}/trace"),
        format!("GET /{}/trace", &TOKEN[1..]),
        format!("GET /{TOKEN}"),
        format!("GET /{TOKEN}/../trace"),
        format!("GET /{TOKEN}/..%2f..%2fetc/passwd"),
        format!("GET /../{TOKEN}/trace"),
        format!("GET //{TOKEN}/trace"),
        format!("PUT /{TOKEN}/trace"),
        format!("OPTIONS /{TOKEN}/trace"),
    ] {
        let (status, body) = server.ask(&line, &here, "");
        assert_eq!(status, 404, "{line}");
        assert!(!body.windows(6).any(|part| part == b"\"kind\""), "{line}");
    }
    let port = server.port;
    let get = format!("GET /{TOKEN}/trace");
    for headers in [
        // Foreign names that resolve to this address.
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: 127.0.0.1:{}\r\n", port ^ 1),
        String::new(),
        // Other pages.
        format!("{here}Origin: https://evil.example\r\n"),
        format!("{here}Origin: null\r\n"),
        format!("{here}Origin: http://localhost:{port}\r\n"),
        format!("{here}Sec-Fetch-Site: cross-site\r\n"),
        format!("{here}Sec-Fetch-Site: same-site\r\n"),
    ] {
        assert_eq!(server.ask(&get, &headers, "").0, 404, "{headers}");
    }
    let far = format!("{here}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(
        server.ask(&format!("GET /{TOKEN}/"), &far, "").0,
        200,
        "a link to the page"
    );
}

#[test]
fn many_connections_do_not_block_the_page() {
    let server = Running::new();
    let mut page = server.connect();
    let request = format!("GET /{TOKEN}/trace HTTP/1.1\r\n{}\r\n", server.host());
    let mut ask = || {
        page.write_all(request.as_bytes()).expect("write");
        let mut head = [0; 15];
        page.read_exact(&mut head).expect("read");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        let mut byte = [0];
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            page.read_exact(&mut byte).expect("read");
            seen.push(byte[0]);
        }
        let text = String::from_utf8(seen).expect("head");
        let (_, length) = text.split_once("Content-Length: ").expect("length");
        let length: u64 = length
            .split("\r\n")
            .next()
            .unwrap()
            .parse()
            .expect("length");
        std::io::copy(&mut (&page).take(length), &mut std::io::sink()).expect("body");
    };
    ask();
    // Incomplete requests.
    let mut half_open = Vec::new();
    for _ in 0..300 {
        let mut stream = server.connect();
        // The server may have closed it in favour of a later one.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
        half_open.push(stream);
    }
    ask();
    // Other connections with the token are served.
    assert_eq!(server.get("trace").0, 200);
    // The first connections were closed.
    let mut rest = Vec::new();
    let _ = half_open[0].read_to_end(&mut rest);
    assert!(rest.is_empty());
    // Requests that are too long are refused.
    let mut long = server.connect();
    let _ = long.write_all(&vec![b'x'; 100 << 10]);
    let _ = long.read_to_end(&mut rest);
    let line = format!("POST /{TOKEN}/tiles");
    let headers = format!("{}Content-Length: 99999999\r\n", server.host());
    let mut large = server.connect();
    let head = format!("{line} HTTP/1.1\r\n{headers}\r\n");
    large.write_all(head.as_bytes()).expect("write");
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 413"));
    ask();
}

#[test]
fn connections_of_other_users_do_not_count() {
    let count = AtomicUsize::new(0);
    let is_first = move |_: Peer| count.fetch_add(1, Ordering::Relaxed) == 0;
    let server = Running::with_permission(Box::new(is_first));
    let mut own = server.connect();
    for _ in 0..200 {
        // Closed at once, whatever is sent.
        let ended = server.connect().read(&mut [0]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
    let request = format!("GET /{TOKEN}/trace HTTP/1.1\r\n{}\r\n", server.host());
    own.write_all(request.as_bytes()).expect("write");
    let mut answer = [0; 15];
    own.read_exact(&mut answer).expect("read");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[test]
fn the_server_ends_after_the_last_page_is_closed() {
    let server = Running::new();
    let open = || {
        let mut stream = server.connect();
        let request = format!("GET /{TOKEN}/alive HTTP/1.1\r\n{}\r\n", server.host());
        stream.write_all(request.as_bytes()).expect("write");
        let mut byte = [0];
        let mut seen = Vec::new();
        // The first keep-alive message.
        while !seen.ends_with(b"\r\n\r\n:\n\n") {
            stream.read_exact(&mut byte).expect("read");
            seen.push(byte[0]);
        }
        stream
    };
    let (first, second) = (open(), open());
    drop(first);
    assert_eq!(server.get("trace").0, 200);
    assert!(server.ended.try_recv().is_err());
    drop(second);
    server.ended.recv_timeout(PATIENCE).expect("it ends");
}

#[test]
fn sql_needs_a_program() {
    let server = Running::new();
    let ask =
        |server: &Running| server.ask(&format!("POST /{TOKEN}/sql"), &server.host(), "SELECT 1");
    assert_eq!(ask(&server).0, 404);
    let trace = Frame::read(&server.get("trace").1);
    assert_eq!(trace.header["sql"], false);
    // A program that cannot be started is an error of the statement.
    let server = Running::with_queries("/nonexistent/ferretto-query");
    let trace = Frame::read(&server.get("trace").1);
    assert_eq!(trace.header["sql"], true);
    let (status, reply) = ask(&server);
    assert_eq!(status, 200);
    let reply = String::from_utf8_lossy(&reply);
    assert!(
        reply.contains("Cannot start /nonexistent/ferretto-query"),
        "{reply}"
    );
    // A program that ends has said why.
    let server = Running::with_queries("/bin/ls");
    let reply = String::from_utf8_lossy(&ask(&server).1).into_owned();
    assert!(reply.contains("ferretto-query has ended: "), "{reply}");
    assert!(reply.contains("--serve"), "{reply}");
    assert_eq!(
        server
            .ask(&format!("POST /{TOKEN}/stop"), &server.host(), "")
            .0,
        200
    );
}

#[test]
fn rows_of_queries_are_located() {
    let server = Running::new();
    let located = |query: &str| {
        let (status, reply) = server.get(&format!("locate?{query}"));
        assert_eq!(status, 200, "{query}");
        serde_json::from_slice::<serde_json::Value>(&reply).expect("JSON")
    };
    let slice = located("ts=0&dur=5000&id=0");
    assert_eq!(
        (slice["name"].as_str(), slice["dur"].as_f64()),
        (Some("s"), Some(5000.0))
    );
    assert_eq!(located("ts=0&id=0"), slice);
    let track = (0..8).map(|track| located(&format!("ts=0&track={track}")));
    assert_eq!(track.filter(|row| *row == slice).count(), 1);
    for query in [
        "ts=1&id=0",
        "ts=0&dur=4&id=0",
        "ts=0",
        "ts=0&id=7",
        "ts=0&track=99&utid=99&ucpu=99",
    ] {
        assert!(located(query).is_null(), "{query}");
    }
    assert_eq!(server.get("locate?dur=5").0, 400);
}

#[test]
fn what_a_page_keeps_is_there_for_the_next_server() {
    let state = tempfile::tempdir().expect("folder");
    let folder = state.path().join("ferretto/view");
    let server = || Running::start(Running::bind(Box::new(|_| true)).with_kept(folder.clone()));
    let first = server();
    assert_eq!(
        first.get("kept"),
        (200, br#"{"keys":null,"settings":null,"sql":null}"#.to_vec())
    );
    assert_eq!(first.post("kept?name=sql", r#"["SELECT 1"]"#).0, 200);
    let settings = r#"{"theme":"dark"}"#;
    assert_eq!(first.post("kept?name=settings", settings).0, 200);
    let file = folder.join("sql.json");
    let mode = std::fs::metadata(&file).expect("a file").mode();
    assert_eq!(mode & 0o777, 0o600);

    let second = server();
    let (_, values) = second.get("kept");
    let values = String::from_utf8(values).expect("text");
    assert_eq!(
        values,
        r#"{"keys":null,"settings":{"theme":"dark"},"sql":["SELECT 1"]}"#
    );
    let (_, page) = second.get("");
    let page = String::from_utf8(page).expect("text");
    assert!(page.contains("data-kind=\"kept\""));

    // Neither other names nor other contents are kept, and a damaged file counts as none.
    let long = format!("\"{}\"", "x".repeat(600 << 10));
    for (name, value) in [("sql", "[1"), ("sql", &long)] {
        let line = format!("kept?name={name}");
        assert_eq!(second.post(&line, value).0, 400, "{name}");
    }
    for name in ["other", "", "../sql", "%2e%2e%2fsql"] {
        let line = format!("kept?name={name}");
        assert_eq!(second.post(&line, "1").0, 404, "{name}");
    }
    assert_eq!(second.get("kept").1, values.as_bytes());
    std::fs::write(&file, "[\"SELECT").expect("write");
    let (_, values) = second.get("kept");
    assert!(values.ends_with(br#""sql":null}"#));
}
