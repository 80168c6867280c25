//! `ferretto view`: a trace in our own page.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use ferretto_trace::Damage;

use crate::world::{Running, World};

/// A trace in the JSON format.
const TRACE: &str = r#"[{"ph":"X","pid":1,"tid":2,"name":"work","ts":5,"dur":9}]"#;

/// Returns the port that a server prints, the path of its page without the first slash, and the
/// rest of its output.
fn address(running: &mut Running) -> (String, String, impl BufRead + use<>) {
    let mut line = String::new();
    let mut out = BufReader::new(running.child().stdout.take().unwrap());
    while !line.starts_with("http://127.0.0.1:") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "no address");
    }
    let rest = line.trim().strip_prefix("http://127.0.0.1:").unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    (port.to_owned(), path.to_owned(), out)
}

#[test]
fn a_page_is_served_until_it_is_closed() {
    let world = World::new();
    world.write("a.json", TRACE.as_bytes());
    let mut running = world.start("ferretto", &["view", "--no-browser", "a.json"]);
    let (port, path, _out) = address(&mut running);
    let ask = |name: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let request = format!("GET /{path}{name} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        stream
            .write_all(format!("{request}Connection: close\r\n\r\n").as_bytes())
            .unwrap();
        stream
    };
    let mut page = Vec::new();
    ask("").read_to_end(&mut page).unwrap();
    assert!(page.starts_with(b"HTTP/1.1 200 OK"));
    let mut trace = Vec::new();
    ask("trace").read_to_end(&mut trace).unwrap();
    let text = String::from_utf8_lossy(&trace);
    assert!(text.contains("\"name\":\"a.json\""), "{text}");
    // The page is opened and closed.
    let mut alive = ask("alive");
    alive.read_exact(&mut [0; 15]).unwrap();
    drop(alive);
    assert!(running.child().wait().unwrap().success());
}

/// Opens the page of a trace and closes it. The server has ended then.
fn open_and_close(world: &World, args: &[&str]) {
    let mut running = world.start("ferretto", args);
    let (port, path, _out) = address(&mut running);
    let mut alive = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let request =
        format!("GET /{path}alive HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    alive.write_all(request.as_bytes()).unwrap();
    alive.read_exact(&mut [0; 15]).unwrap();
    drop(alive);
    assert!(running.child().wait().unwrap().success());
}

#[test]
fn the_server_writes_and_reads_an_index_of_a_long_trace_unless_told_otherwise() {
    let world = World::new();
    // Smaller traces have no index; blanks count as well.
    let mut long = TRACE.as_bytes().to_vec();
    long.resize(17 << 20, b' ');
    world.write("long.json", &long);
    let indexes = || {
        let folder = std::fs::read_dir(world.path("cache/ferretto/view"));
        folder.map_or(0, Iterator::count)
    };
    open_and_close(&world, &["view", "--no-browser", "--no-cache", "long.json"]);
    assert_eq!(indexes(), 0);
    open_and_close(&world, &["view", "--no-browser", "long.json"]);
    assert_eq!(indexes(), 1);
    // The time of an index is that of its last use.
    let mut folder = std::fs::read_dir(world.path("cache/ferretto/view")).unwrap();
    let index = folder.next().unwrap().unwrap().path();
    let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = std::fs::File::options().write(true).open(&index);
    file.unwrap().set_modified(old).unwrap();
    let used = || std::fs::metadata(&index).unwrap().modified().unwrap();
    open_and_close(&world, &["view", "--no-browser", "--no-cache", "long.json"]);
    assert_eq!(used(), old);
    open_and_close(&world, &["view", "--no-browser", "long.json"]);
    assert_ne!(used(), old);
}

#[test]
fn a_page_is_written_completely_or_not_at_all() {
    let world = World::new();
    world.write("a.json", TRACE.as_bytes());
    world.write("a.html", b"what was there");
    let run = |args: &[&str], code| world.run("ferretto", args).returned(code);
    run(&["view", "a.json", "-o", "a.html"], 0);
    let page = String::from_utf8(world.read("a.html")).unwrap();
    assert!(page.contains("class=\"ferretto-frame\" data-kind=\"slices\""));
    let mode = std::fs::metadata(world.path("a.html"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let small = ["view", "a.json", "-o", "a.html", "--max-size", "1K"];
    run(&small, 1).complained("--max-size");
    assert_eq!(world.read("a.html"), page.as_bytes());
    // The trace itself is never overwritten.
    run(&["view", "a.json", "-o", "a.json"], 1).complained("the same file");
    assert_eq!(world.read("a.json"), TRACE.as_bytes());
    run(&["view", "missing"], 1).complained("missing");
    assert_eq!(world.names(), ["a.html", "a.json"]);
}

#[test]
fn a_recording_is_shown_after_its_end() {
    let world = World::new();
    let mut running = world.start("ferretto", &["record", "-q", "--view", "--", "false"]);
    let (port, path, _out) = address(&mut running);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let request = format!("GET /{path}alive HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_exact(&mut [0; 15]).unwrap();
    drop(stream);
    // The exit code is that of the command.
    assert_eq!(running.child().wait().unwrap().code(), Some(1));
}

#[test]
fn a_recording_is_shown_while_it_grows() {
    let world = World::new();
    let pipe = world.path("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let args = ["view", "--live", "--no-browser", "--", "cat", "pipe"];
    let mut running = world.start("ferretto", &args);
    let (port, path, _out) = address(&mut running);
    let ask = |name: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let request = format!("GET /{path}{name} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
        stream
            .write_all(format!("{request}Connection: close\r\n\r\n").as_bytes())
            .unwrap();
        stream
    };
    let is_live = || {
        let mut trace = Vec::new();
        ask("trace").read_to_end(&mut trace).unwrap();
        let text = String::from_utf8_lossy(&trace);
        assert_ne!(
            text.contains("\"live\":true"),
            text.contains("\"live\":false")
        );
        text.contains("\"live\":true")
    };
    assert!(is_live());
    let mut events = BufReader::new(ask("alive"));
    // The command runs until the pipe is written to.
    std::fs::write(&pipe, "x").unwrap();
    let mut line = String::new();
    while is_live() {
        line.clear();
        while !line.starts_with("event: more") {
            line.clear();
            assert_ne!(events.read_line(&mut line).unwrap(), 0);
        }
    }
    drop(events);
    assert!(running.child().wait().unwrap().success());
}

/// Returns the only child of a process.
fn child_of(pid: i32) -> i32 {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(children).unwrap();
    children.trim().parse().unwrap()
}

fn is_running(pid: i32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

#[test]
fn a_recording_ends_before_the_program_that_shows_it() {
    use rustix::process::Signal;

    for (signal, command) in [
        (Signal::INT, &[][..]),
        (Signal::TERM, &[]),
        (Signal::TERM, &["--", "sleep", "1000"]),
    ] {
        let world = World::new();
        let args = [&["view", "--live", "--no-browser"], command].concat();
        let mut running = world.start("ferretto", &args);
        let (_, _, _out) = address(&mut running);
        let recorder = child_of(running.pid());
        running.signal(signal);
        let finished = running.finish();
        assert!(!is_running(recorder), "{signal:?} {command:?}");
        assert!(!finished.stderr.contains("incomplete"), "{finished:?}");
        let summary = world.summary("trace.pftrace");
        assert_eq!(summary.damage, Damage::default(), "{summary:?}");
        assert!(summary.duration_ns.is_some(), "{summary:?}");
    }
}

#[test]
fn ctrl_c_in_a_terminal_ends_recording_and_page() {
    let world = World::new();
    let view = world.command("ferretto", &["view", "--live", "--no-browser"]);
    let line = format!(
        "exec {} view --live --no-browser",
        view.get_program().display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    let Ok(child) = world.at_home(script).stdin(Stdio::piped()).spawn() else {
        println!("skipped: script is not installed");
        return;
    };
    let mut running = Running::new(child);
    let (_, _, mut out) = address(&mut running);
    let recorder = child_of(child_of(running.pid()));
    let stdin = running.child().stdin.as_mut().unwrap();
    stdin.write_all(b"\x03").unwrap();
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    running.finish();
    assert!(!is_running(recorder));
    assert!(!said.contains("incomplete"), "{said}");
}

#[test]
fn a_page_is_for_its_user_alone() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    const USER: u32 = 65_534;
    const OTHER: u32 = 65_533;
    let world = World::new();
    let readable = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(world.path(name), permissions).unwrap();
    };
    world.write("a.json", TRACE.as_bytes());
    readable("", 0o755);
    readable("a.json", 0o644);
    let mut command = world.command("ferretto", &["view", "--no-browser", "a.json"]);
    let Ok(child) = command.uid(USER).gid(USER).spawn() else {
        println!("skipped: others may not run the binary where it is");
        return;
    };
    let mut running = Running::new(child);
    let (port, path, _out) = address(&mut running);
    let ask = |user| ask(&port, &path, user);
    let Ok(own) = ask(USER) else {
        println!("skipped: bash is not installed");
        return;
    };
    assert!(own.starts_with(b"HTTP/1.1 200 OK"));
    // Root can read the file anyway. Other users may know the address from the list of processes.
    assert!(ask(0).unwrap().starts_with(b"HTTP/1.1 200 OK"));
    assert_eq!(ask(OTHER).unwrap(), b"");
    running.signal(rustix::process::Signal::TERM);
    running.finish();
}

/// Requests the trace of a page as another user.
fn ask(port: &str, path: &str, user: u32) -> std::io::Result<Vec<u8>> {
    fetch(port, &format!("{path}trace"), user)
}

/// Requests a path as another user.
fn fetch(port: &str, path: &str, user: u32) -> std::io::Result<Vec<u8>> {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /{path} HTTP/1.1\\r\\nHost: \
         127.0.0.1:{port}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    let asked = Command::new("bash")
        .args(["-c", &script])
        .uid(user)
        .output();
    asked.map(|asked| asked.stdout)
}

#[test]
fn an_address_in_the_arguments_of_root_s_browser_is_of_no_use_to_others() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let world = World::new();
    world.write("a.json", TRACE.as_bytes());
    world.write_browser();
    for (caller, may_ask) in [(None, false), (Some("65534"), true)] {
        let mut command = world.command("ferretto", &["view", "a.json"]);
        let path = format!("{}:/usr/bin:/bin", world.path("").display());
        command.env("DISPLAY", ":0").env("PATH", path);
        command.env_remove("SUDO_UID");
        caller.map(|caller| command.env("SUDO_UID", caller));
        let mut running = Running::new(command.spawn().unwrap());
        let (port, path, _out) = address(&mut running);
        let Ok(own) = ask(&port, &path, 0) else {
            println!("skipped: bash is not installed");
            return;
        };
        assert!(own.starts_with(b"HTTP/1.1 200 OK"));
        let theirs = ask(&port, &path, 65_534).unwrap();
        assert_eq!(theirs.starts_with(b"HTTP/1.1 200 OK"), may_ask);
        assert_is_ticket(&world, &port, &path, 0);
        running.signal(rustix::process::Signal::TERM);
        running.finish();
    }
}

/// Asserts that the browser's arguments do not contain the address of the page, and lead the user
/// to it once.
fn assert_is_ticket(world: &World, port: &str, path: &str, user: u32) {
    let shown = world.arguments_of_browser();
    let token = path.trim_end_matches('/');
    assert!(!shown.contains(token), "{shown}");
    let ticket = shown.trim().split('/').next_back().unwrap();
    assert_eq!(shown.trim(), format!("http://127.0.0.1:{port}/{ticket}"));
    // Only the ticket itself leads to the page.
    let below = fetch(port, &format!("{ticket}/trace"), user).unwrap();
    assert!(below.starts_with(b"HTTP/1.1 404 "));
    let first = String::from_utf8(fetch(port, ticket, user).unwrap()).unwrap();
    assert!(first.starts_with("HTTP/1.1 303 "), "{first}");
    assert!(
        first.contains(&format!("\r\nLocation: /{path}\r\n")),
        "{first}"
    );
    let second = fetch(port, ticket, user).unwrap();
    assert!(second.starts_with(b"HTTP/1.1 404 "));
}

#[test]
fn an_address_in_the_arguments_of_a_user_s_browser_is_of_no_use_to_others() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    const USER: u32 = 65_534;
    let world = World::new();
    let open = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(world.path(name), permissions).unwrap();
    };
    world.write("a.json", TRACE.as_bytes());
    world.write_browser();
    open("", 0o777);
    open("a.json", 0o644);
    let mut command = world.command("ferretto", &["view", "a.json"]);
    let programs = format!("{}:/usr/bin:/bin", world.path("").display());
    command.env("DISPLAY", ":0").env("PATH", programs);
    let Ok(child) = command.uid(USER).gid(USER).spawn() else {
        println!("skipped: others may not run the binary where it is");
        return;
    };
    let mut running = Running::new(child);
    let (port, path, _out) = address(&mut running);
    let Ok(theirs) = ask(&port, &path, 65_533) else {
        println!("skipped: bash is not installed");
        return;
    };
    assert_eq!(theirs, b"");
    assert_is_ticket(&world, &port, &path, USER);
    running.signal(rustix::process::Signal::TERM);
    running.finish();
}

#[test]
fn a_trace_is_read_without_further_threads() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be several users");
        return;
    }
    let world = World::new();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(world.path(""), open).unwrap();
    world.write(
        "t",
        crate::symbolize::sample("/nowhere/program", &[7; 20], 0x40_0010),
    );
    let program = world.command::<&str>("ferretto", &[]);
    for command in ["view t -o out", "json t -o out", "symbolize t -o out"] {
        // The limit is that of the user, all of whose processes count.
        let script = format!("ulimit -u 0; exec \"$0\" {command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program.get_program());
        let mut shell = world.at_home(shell);
        let Ok(child) = shell.uid(65_534).gid(65_534).spawn() else {
            println!("skipped: others may not run the binary where it is");
            return;
        };
        let outcome = Running::new(child).finish();
        assert!(
            !outcome.stderr.contains("panicked"),
            "{command}: {outcome:?}"
        );
        assert!(matches!(outcome.code, 0 | 3), "{command}: {outcome:?}");
    }
}
