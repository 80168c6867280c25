//! Handing a trace to the UI.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::world::World;

const NAME: &str = "a trace.pftrace";

fn ask(port: u16, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: x\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn cli_039_the_trace_is_handed_out_once() {
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
    assert_eq!(rest, "a%2520trace.pftrace&referrer=open_trace_in_ui\n");
    let port = port.parse().unwrap();

    // A connection that asks for nothing is in nobody's way.
    let _idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for wrong in [
        "GET /other",
        "GET /",
        "GET /a%20trace.pftrace?query",
        "POST /a%20trace.pftrace",
    ] {
        let answer = ask(port, wrong);
        assert!(answer.starts_with(b"HTTP/1.1 404 "), "{wrong}");
    }
    assert!(ask(port, "OPTIONS /a%20trace.pftrace").starts_with(b"HTTP/1.1 204 "));
    let answer = ask(port, "GET /a%20trace.pftrace");
    let end = answer
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in [
        "Access-Control-Allow-Origin: http://localhost:10000",
        "Cache-Control: no-cache",
    ] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
    assert_eq!(answer[end + 4..], trace);
    // That was the one download.
    running.finish().returned(0);
}

#[test]
fn what_cannot_be_opened_says_why() {
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
        .complained("it is taken");
}
