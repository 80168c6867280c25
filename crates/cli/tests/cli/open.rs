//! Serving a trace to the UI.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::world::{Running, World};

const NAME: &str = "a trace.pftrace";

/// The origin of the UI in these tests.
const PAGE: &str = "Origin: http://localhost:10000";

fn fetch(port: u16, request: &str, origin: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn cli_039_the_trace_is_served_once() {
    let world = World::new();
    let trace: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    world.write(NAME, &trace);
    let args = ["open", "--no-browser", "--port", "0", NAME];
    let origin = ["--origin", "http://localhost:10000/path"];
    let mut running = world.start("ferretto", &[&args[..], &origin].concat());
    let mut address = String::new();
    BufReader::new(running.child().stdout.as_mut().unwrap())
        .read_line(&mut address)
        .unwrap();
    let url = "http://localhost:10000/path/#!/?url=http://127.0.0.1:";
    let (port, rest) = address
        .strip_prefix(url)
        .and_then(|rest| rest.split_once('/'))
        .unwrap_or_else(|| panic!("{address}"));
    let (secret, rest) = rest.split_once('/').unwrap();
    assert!(secret.len() == 32 && secret.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(rest, "a%2520trace.pftrace&referrer=open_trace_in_ui\n");
    let port = port.parse().unwrap();

    // A connection without a request does not block others.
    let _idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for wrong in [
        "GET /other".to_owned(),
        "GET /".to_owned(),
        "GET /a%20trace.pftrace".to_owned(),
        format!("GET /{secret}/a%20trace.pftrace?query"),
        format!("POST /{secret}/a%20trace.pftrace"),
    ] {
        let answer = fetch(port, &wrong, PAGE);
        assert!(answer.starts_with(b"HTTP/1.1 404 "), "{wrong}");
    }
    let trace_of = |method: &str| format!("{method} /{secret}/a%20trace.pftrace");
    for origin in ["Origin: https://ui.perfetto.dev", "X: y"] {
        let answer = fetch(port, &trace_of("GET"), origin);
        assert!(answer.starts_with(b"HTTP/1.1 404 "), "{origin}");
    }
    assert!(fetch(port, &trace_of("OPTIONS"), PAGE).starts_with(b"HTTP/1.1 204 "));
    let answer = fetch(port, &trace_of("GET"), PAGE);
    let end = answer
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in [
        "Access-Control-Allow-Origin: http://localhost:10000",
        "Cache-Control: no-store",
    ] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
    assert_eq!(answer[end + 4..], trace);
    // The program ends after the download.
    running.finish().returned(0);
}

#[test]
fn only_the_user_of_the_browser_may_fetch_the_trace() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be two users");
        return;
    }
    let world = World::new();
    world.write(NAME, "trace");
    // Every user can see the address in its arguments.
    world.write_browser();
    let path = format!("{}:/usr/bin:/bin", world.path("").display());
    let mut command = world.command("ferretto", &["open", "--port", "0", NAME]);
    let command = command.env("PATH", path).env("DISPLAY", ":99");
    let mut running = Running::new(command.spawn().unwrap());
    let mut address = String::new();
    BufReader::new(running.child().stdout.as_mut().unwrap())
        .read_line(&mut address)
        .unwrap();
    let (_, rest) = address.split_once("url=http://127.0.0.1:").unwrap();
    let (rest, _) = rest.split_once('&').unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    let path = path.replace("%25", "%");
    let request = format!(
        "GET /{path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nOrigin: https://ui.perfetto.dev\\r\\n\\r\\n"
    );
    let ask = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf '{request}' >&3; cat <&3");
    let mut stranger = Command::new("bash");
    stranger
        .args(["-c", &ask.replace('%', "%%")])
        .uid(65_534)
        .gid(65_534);
    let outcome = stranger.output().unwrap();
    assert_eq!(outcome.stdout, b"");
    // Nobody can fetch the trace with what the list of processes shows.
    let shown = world.arguments_of_browser();
    assert!(!shown.contains(path.split('/').next().unwrap()), "{shown}");
    let own = Command::new("bash")
        .args(["-c", &ask.replace('%', "%%")])
        .output()
        .unwrap();
    assert!(own.stdout.ends_with(b"\r\n\r\ntrace"), "{own:?}");
    running.finish().returned(0);
}

#[test]
fn traces_that_cannot_be_opened_are_reported_with_the_reason() {
    let world = World::new();
    for (file, expected) in [
        ("missing", "cannot open missing: No such file or directory"),
        (".", "cannot open .: it is not a file"),
    ] {
        world
            .run("ferretto", &["open", "--no-browser", "--port", "0", file])
            .returned(1)
            .complained(expected);
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    world.write("trace", "");
    world
        .run(
            "ferretto",
            &["open", "--no-browser", "--port", &port, "trace"],
        )
        .returned(1)
        .complained("it is in use");
}
