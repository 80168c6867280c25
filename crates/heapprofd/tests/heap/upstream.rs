//! Upstream's client, profiler and trace processor with ours.
//!
//! `FERRETTO_UPSTREAM` names the folder of upstream's programs, with
//! `libheapprofd_glibc_preload.so` and `trace_processor_shell`; without it the tests are skipped.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use ferretto_heap::control::ControlPage;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::world::{LIMIT, Recorded, Target, World, compiled, end, every, program, with_program};

/// Returns the path of an upstream program, if available.
fn upstream(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FERRETTO_UPSTREAM").map(PathBuf::from);
    let path = folder.map(|folder| folder.join(name));
    let found = path.filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: FERRETTO_UPSTREAM does not name a folder with {name}");
    }
    found
}

/// Starts the program with these libraries, connected by the bridge.
fn bridged(
    world: &World,
    words: &[&str],
    libraries: &[&Path],
    variables: &[(&str, &str)],
) -> Target {
    let options = ["-shared", "-fPIC", "-ldl"];
    let bridge = compiled("heap-bridge.so", "bridge.c", &options).expect("there is a compiler");
    let libraries = std::iter::once(&bridge as &Path).chain(libraries.iter().copied());
    let libraries: Vec<String> = libraries.map(|path| path.display().to_string()).collect();
    let mut command = Command::new(program().expect("it is built"));
    command
        .args(words)
        .env("LD_PRELOAD", libraries.join(":"))
        .env(
            "PERFETTO_PRODUCER_SOCK_NAME",
            world.folder.path().join("producer.sock"),
        )
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Target(command.spawn().expect("it runs"))
}

#[test]
fn upstreams_client_records_into_our_profiler() {
    let Some(library) = upstream("libheapprofd_glibc_preload.so") else {
        return;
    };
    with_program(|world| {
        let socket = world.socket().display().to_string();
        let variables = [
            ("BRIDGE", "profiler"),
            ("BRIDGE_SOCKET", &*socket),
            // The client waits for the session before the program starts.
            ("PERFETTO_HEAPPROFD_BLOCKING_INIT", "1"),
        ];
        let recorded = world.record(&every(1), |world| {
            bridged(world, &["leak", "5000"], &[&library], &variables).ends();
        });
        let dump = &recorded.dumps()[0];
        assert!(!dump.has_overrun && !dump.is_corrupt, "{dump:?}");
        let leaked = recorded.sums(dump, "leaked");
        assert_eq!(
            (leaked.allocated, leaked.allocations, leaked.freed),
            (1_500_000, 5000, 0)
        );
        let passing = recorded.sums(dump, "passing");
        assert_eq!((passing.allocated, passing.freed), (1_000_000, 1_000_000));
        // Records of threads arrive in any order.
        let recorded = world.record(&every(2000), |world| {
            bridged(world, &["threads", "16"], &[&library], &variables).ends();
        });
        let churn = recorded.sums(&recorded.dumps()[0], "churn");
        assert!(churn.allocated > 0);
        assert_eq!(churn.live(), 0);
    });
}

fn send(stream: &UnixStream, fd: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let byte = [IoSlice::new(b"f")];
    sendmsg(stream, &byte, &mut ancillary, SendFlags::empty()).expect("sent");
}

/// Accepts the next connection of a process, on a thread, since there may be none.
fn accepted(listener: UnixListener, pid: u32) -> mpsc::Receiver<UnixStream> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // Upstream's profiler is a fork of the target and has our client, too.
            let peer = rustix::net::sockopt::socket_peercred(&stream).expect("it has one");
            let is_it = peer.pid.as_raw_nonzero().get() as u32 == pid;
            if is_it && sender.send(stream).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn our_client_records_into_upstreams_profiler() {
    let Some(library) = upstream("libheapprofd_glibc_preload.so") else {
        return;
    };
    with_program(|world| {
        let folder = world.folder.path();
        let (bridge, ours) = (folder.join("bridge"), folder.join("ours"));
        let page = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(folder.join("ours.page"))
            .expect("a file");
        page.set_len(4096).expect("enough memory");
        let page = ControlPage::new(&page).expect("a page");
        let listener = UnixListener::bind(&ours).expect("a socket");
        let bridges = UnixListener::bind(&bridge).expect("a socket");
        let consumer = world.begin(&every(1));
        let (bridge, ours) = (bridge.display().to_string(), ours.display().to_string());
        let variables = [
            ("BRIDGE", "client"),
            ("BRIDGE_SOCKET", &*bridge),
            ("FERRETTO_HEAP_SOCK_NAME", &*ours),
        ];
        let libraries: [&Path; 2] = [&world.library(), &library];
        let mut target = bridged(&world, &["leak-and-wait", "100"], &libraries, &variables);
        target.waits();
        // Upstream's profiler starts; our client is notified and connects.
        let client = accepted(listener, target.pid());
        let wanted = accepted(bridges, target.pid());
        let to = wanted.recv_timeout(LIMIT).expect("the bridge asks");
        page.call(1);
        target.goes_on();
        let client = client.recv_timeout(LIMIT).expect("our client connects");
        send(&to, client.as_fd());
        target.waits();
        // The target lives until its callstacks are symbolized.
        let recorded = end(consumer);
        target.goes_on();
        target.ends();
        let dump = &recorded.dumps()[0];
        assert!(!dump.has_overrun && !dump.is_corrupt, "{dump:?}");
        let leaked = recorded.sums(dump, "leaked");
        assert_eq!((leaked.allocated, leaked.allocations), (30_000, 100));
    });
}

/// Runs a query with upstream's trace processor. Returns a line for each row.
fn ask(program: &Path, recorded: &Recorded, sql: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &recorded.bytes).expect("written");
    let output = Command::new(program)
        .arg("query")
        .arg(file.path())
        .arg(sql)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn upstreams_trace_processor_computes_the_same_totals() {
    let Some(program) = upstream("trace_processor_shell") else {
        return;
    };
    with_program(|world| {
        let mut config = every(512);
        config.all_heaps = Some(true);
        config.continuous_dump_config = ferretto_proto::heapprofd_config::ContinuousDumpConfig {
            dump_interval_ms: Some(30),
            ..Default::default()
        }
        .into();
        let recorded = world.record(&config, |world| {
            world.run(&["leak", "20000"]);
            world.run(&["threads", "8"]);
            world.run(&["fork"]);
        });
        let errors =
            "select name || ' ' || value from stats where severity = 'error' and value > 0";
        assert_eq!(ask(&program, &recorded, errors), [""; 0]);
        let sums = "select pid || ' ' || heap_name || ' ' || sum(iif(size > 0, size, 0)) || ' ' || \
            sum(iif(size > 0, count, 0)) || ' ' || -sum(iif(size < 0, size, 0)) || ' ' || \
            -sum(iif(size < 0, count, 0)) from heap_profile_allocation join process using (upid) group by pid, heap_name";
        let mut theirs = ask(&program, &recorded, sums);
        theirs
            .iter_mut()
            .for_each(|row| *row = row.trim_matches('"').to_owned());
        let mut last = std::collections::BTreeMap::new();
        for dump in recorded.dumps() {
            last.insert((dump.pid, dump.heap.clone()), dump.total());
        }
        let mut ours: Vec<String> = last
            .iter()
            .filter(|(_, total)| total.allocated.samples > 0)
            .map(|((pid, heap), total)| {
                let (allocated, freed) = (total.allocated, total.freed);
                format!(
                    "{pid} {heap} {} {} {} {}",
                    allocated.weight, allocated.samples, freed.weight, freed.samples
                )
            })
            .collect();
        theirs.sort();
        ours.sort();
        assert!(ours.len() >= 3, "{ours:?}");
        assert_eq!(theirs, ours);
    });
}
