//! Debug files from a server on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ferretto_symbols::{Module, Options, ServerUrl};

use crate::support::{World, elf, function, functions, module, symbolize};

const SOURCE: &str = "
    static __attribute__((noinline)) int hidden(int x) { __asm__ volatile(\"nop\"); return x * 3; }
    int main(int argc, char **argv) { (void)argv; return hidden(argc); }";

/// A server that gives one reply to all requests.
struct Server {
    url: ServerUrl,
    address: String,
    /// The targets of the requests.
    requests: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(reply: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let thread = std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let Some(target) = request(&stream) else {
                    return;
                };
                let is_moved = target.starts_with("/moved");
                seen.lock().unwrap().push(target.clone());
                let moved = format!(
                    "HTTP/1.1 302 Found\r\nLocation: {}\r\n\r\n",
                    target.replace("/moved", "/new")
                );
                let reply = if is_moved { moved.as_bytes() } else { &reply };
                // The client may end first.
                let _ = stream.write_all(reply);
            }
        });
        Self {
            url: format!("http://{address}").parse().unwrap(),
            address,
            requests,
            thread: Some(thread),
        }
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A connection without a request ends it.
        drop(TcpStream::connect(&self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads a request, and returns its target.
fn request(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    for line in lines {
        if line.ok()?.is_empty() {
            break;
        }
    }
    Some(first.split(' ').nth(1)?.to_owned())
}

fn reply(content: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
        content.len()
    );
    [head.as_bytes(), content].concat()
}

fn asking(world: &World, url: &ServerUrl) -> Options {
    Options {
        servers: vec![url.clone()],
        downloads: Some(world.path("downloads")),
        system: true,
        ..Options::default()
    }
}

/// Returns a stripped program's module with an address, and the content of its debug file.
fn stripped(world: &World) -> (Module, Vec<u8>) {
    let program = world.compile(SOURCE, "program", &["-O1", "-g"]);
    let address = function(&elf(&program), "hidden").0;
    world.run("objcopy", &["--only-keep-debug", "program", "debug"]);
    world.run("strip", &["program"]);
    let content = fs::read(world.path("debug")).unwrap();
    fs::remove_file(world.path("debug")).unwrap();
    (module(&program, &[address]), content)
}

fn kept(world: &World) -> usize {
    fs::read_dir(world.path("downloads")).map_or(0, Iterator::count)
}

#[test]
fn missing_debug_files_come_from_a_server_once() {
    let world = World::new();
    let (module, content) = stripped(&world);
    let server = Server::new(reply(&content));
    let unknown = symbolize(
        Options {
            servers: Vec::new(),
            ..asking(&world, &server.url)
        },
        &module,
    );
    assert!(functions(&unknown).is_empty());
    assert_eq!(server.count(), 0, "no server is asked by default");
    for _ in 0..2 {
        let outcome = symbolize(asking(&world, &server.url), &module);
        assert_eq!(functions(&outcome), ["hidden"]);
    }
    let id: String = module
        .build_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let expected = format!("/buildid/{id}/debuginfo");
    assert_eq!(*server.requests.lock().unwrap(), [expected]);
    assert_eq!(kept(&world), 1);
}

#[test]
fn redirections_within_limits_are_followed() {
    let world = World::new();
    let (module, content) = stripped(&world);
    let server = Server::new(reply(&content));
    let url = format!("http://{}/moved/", server.address).parse().unwrap();
    let outcome = symbolize(asking(&world, &url), &module);
    assert_eq!(functions(&outcome), ["hidden"]);
    assert_eq!(server.count(), 2);
    let other = Server::new(b"HTTP/1.1 302 Found\r\nlocation: /again\r\n\r\n".to_vec());
    let world = World::new();
    let (module, _) = stripped(&world);
    let outcome = symbolize(asking(&world, &other.url), &module);
    assert!(functions(&outcome).is_empty());
    let reasons = format!("{:?}", outcome.skipped);
    assert!(reasons.contains("too many redirections"), "{reasons}");
}

#[test]
fn wrong_replies_give_no_names_and_leave_no_files() {
    let world = World::new();
    let (module, content) = stripped(&world);
    let program = fs::read("/proc/self/exe").unwrap();
    let mut cut = reply(&content);
    cut.truncate(cut.len() - 7);
    let replies: [(&[u8], &str); 7] = [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "Missing"),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "the server replied 500"),
        (b"nonsense\r\n\r\n", "not one of HTTP"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "not one of HTTP",
        ),
        (b"", "not one of HTTP"),
        (&cut, "bytes came"),
        (&reply(&program[..program.len().min(1 << 20)]), "BuildId"),
    ];
    for (reply, expected) in replies {
        let server = Server::new(reply.to_vec());
        let outcome = symbolize(asking(&world, &server.url), &module);
        assert!(functions(&outcome).is_empty(), "{expected}");
        let reasons = format!("{:?}", outcome.skipped);
        let is_named = reasons.contains(expected) || reasons.contains("Unusable");
        assert!(is_named, "{expected}: {reasons}");
        assert_eq!(kept(&world), 0, "{expected}");
    }
}

#[test]
fn a_server_that_is_down_is_asked_once() {
    let world = World::new();
    let (module, _) = stripped(&world);
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let url = format!("http://{address}").parse().unwrap();
    let symbolizer = ferretto_symbols::Symbolizer::new(asking(&world, &url));
    let reasons = [(); 2].map(|()| {
        let outcome = symbolizer.symbolize_module(&module);
        let (path, reason) = outcome.skipped.last().unwrap().clone();
        assert!(path.starts_with(format!("http://{address}")), "{path:?}");
        reason.to_string()
    });
    assert!(reasons[1].contains("did not answer before"), "{reasons:?}");
    assert_ne!(reasons[0], reasons[1]);
}

#[test]
fn addresses_of_servers_are_checked() {
    for good in ["http://a", "https://debug.example:8002/path/"] {
        assert!(good.parse::<ServerUrl>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "a",
        "ftp://a",
        "http://",
        "http://a b",
        "http://u@a",
        "http:///x",
    ] {
        assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
    }
}
