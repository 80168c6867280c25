//! Attacks on the heap profiler from processes of another user, beside an honest client and an
//! honest consumer. The measurements are printed (`cargo test -p ferretto-heapprofd --test attacks
//! -- --nocapture`).

#[path = "../ring_client/mod.rs"]
mod ring_client;

use std::fs::{Permissions, set_permissions};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_client::{Address, Consumer, DaemonOptions};
use ferretto_heap::ring::{Mapping, Writer};
use ferretto_heap::wire::{HELLO, HELLO_EXTENDED, record};
use ferretto_heapprofd::{HEAPPROFD, Options, Profiler};
use ferretto_host::{Host, HostOptions, Stopper};
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{DataSourceConfig, HeapprofdConfig, Message as _, TraceConfig};
use ferretto_testing::attack::{self, Honest, NOBODY, Process, line_after, measure, this_program};

use crate::ring_client::{OWN, free, granted, hello, malloc, offer, try_write};

/// Set to the folder of the sockets in the processes of the profiler and of attackers.
const FOLDER_VARIABLE: &str = "FERRETTO_TEST_FOLDER";
/// Set to the name of the attack, and its duration in milliseconds, in the processes of attackers.
const ATTACK_VARIABLE: &str = "FERRETTO_TEST_ATTACK";
const TIME_VARIABLE: &str = "FERRETTO_TEST_ATTACK_MS";
const LIMIT: Duration = Duration::from_secs(60);
/// The growth of the profiler's memory in MiB that is allowed: a few rings.
const KEPT_MIB: u64 = 32;

/// The attacks. Each is repeated until its time is over; the profiler ends some of their clients.
const ATTACKS: [(&str, Attack); 4] = [
    ("endless_rings", endless_rings),
    ("parked_frees", parked_frees),
    ("live_allocations", live_allocations),
    ("many_clients", many_clients),
];

type Attack = fn(&Attacker);

/// An attacker in its process.
struct Attacker {
    socket: PathBuf,
    until: Instant,
}

impl Attacker {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Connects as a client; `None` if it is refused for now.
    fn client(&self, version: u8) -> Option<(UnixStream, Writer)> {
        let stream = hello(&self.socket, version, &OWN).ok()?;
        let ring = granted(&stream)?;
        let writer = Writer::new(Mapping::new(ring.as_raw_fd())?);
        stream.set_nonblocking(true).expect("a socket");
        Some((stream, writer))
    }

    /// Writes records as fast as the profiler reads them, until it ends the client.
    fn flood(&self, version: u8, mut next: impl FnMut(u64) -> Vec<u8>) {
        while self.goes_on() {
            let Some((mut stream, writer)) = self.client(version) else {
                continue;
            };
            let mut number = 0;
            let mut bytes = next(number);
            while self.goes_on() {
                if offer(&writer, &stream, &bytes) {
                    number += 1;
                    bytes = next(number);
                } else if matches!(stream.read(&mut [0]), Ok(0)) {
                    break;
                }
            }
        }
    }
}

/// A client that has closed its connection goes on writing that its maps have changed.
fn endless_rings(attacker: &Attacker) {
    let changed = record::MAPS_CHANGED.to_ne_bytes();
    let mut rings = Vec::new();
    while attacker.goes_on() {
        if rings.len() < 8
            && let Some((stream, writer)) = attacker.client(HELLO_EXTENDED)
        {
            while offer(&writer, &stream, &changed) {}
            let _ = rustix::net::shutdown(&stream, rustix::net::Shutdown::Both);
            rings.push(writer);
        }
        for writer in &rings {
            for _ in 0..1000 {
                try_write(writer, &changed);
            }
        }
    }
}

/// Frees with even sequence numbers, which wait for the odd ones for ever.
fn parked_frees(attacker: &Attacker) {
    attacker.flood(HELLO, |number| free(2 * number + 2, 16));
}

/// Allocations that are never freed, each at its own address.
fn live_allocations(attacker: &Attacker) {
    attacker.flood(HELLO, |number| malloc(number + 1, 0, &[]));
}

/// As many clients as there can be.
fn many_clients(attacker: &Attacker) {
    let mut clients = Vec::new();
    while attacker.goes_on() {
        clients.extend(attacker.client(HELLO_EXTENDED));
        if clients.len() > 200 {
            clients.clear();
        }
    }
}

/// An attacker, in a process of its own.
#[test]
fn attacker_main() {
    let Ok(name) = std::env::var(ATTACK_VARIABLE) else {
        return;
    };
    let (_, run) = ATTACKS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("an attack");
    let time = std::env::var(TIME_VARIABLE)
        .expect("set")
        .parse()
        .expect("a number");
    run(&Attacker {
        socket: heap_socket(&folder().expect("set")),
        until: Instant::now() + Duration::from_millis(time),
    });
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from)
}

fn heap_socket(folder: &Path) -> PathBuf {
    folder.join("heap")
}

fn address(folder: &Path, role: &str) -> Address {
    Address::Path(folder.join(role))
}

/// The profiler, in a process of its own.
#[test]
fn profiler_main() {
    let Some(folder) = folder().filter(|_| std::env::var_os(ATTACK_VARIABLE).is_none()) else {
        return;
    };
    let profiler = Profiler::new(Options {
        daemon: DaemonOptions {
            address: Some(address(&folder, "producer.sock")),
            on_ready: Some(Arc::new(|| println!("\nready"))),
            ..DaemonOptions::default()
        },
        socket: Some(heap_socket(&folder)),
        ..Options::default()
    });
    profiler.expect("a profiler").run();
}

/// A service in this process, the profiler in one of its own, and a recording of all programs.
struct World {
    folder: tempfile::TempDir,
    host: Option<(Stopper, JoinHandle<()>)>,
    profiler: Process,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its owner");
        let host = Host::bind(HostOptions::in_folder(folder.path())).expect("a host");
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().expect("the host runs"));
        let mut command = this_program("profiler_main");
        command
            .env(FOLDER_VARIABLE, folder.path())
            .stdout(Stdio::piped());
        let mut profiler = Process(command.spawn().expect("it starts"));
        line_after(profiler.0.stdout.as_mut().expect("a pipe"), "ready");
        Self {
            folder,
            host: Some((stopper, thread)),
            profiler,
        }
    }

    fn consumer(&self) -> Consumer {
        let address = address(self.folder.path(), "consumer.sock");
        Consumer::connect(&address, LIMIT).expect("a consumer")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            let _ = thread.join();
        }
    }
}

/// Returns a config for the heaps of all programs.
fn config() -> TraceConfig {
    let heap = HeapprofdConfig {
        sampling_interval_bytes: Some(1),
        all: Some(true),
        block_client: Some(true),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(16 << 10),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: DataSourceConfig {
                name: Some(HEAPPROFD.into()),
                heapprofd_config: Some(heap.encode_to_vec()),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Makes an attack, and asserts that it does not affect the honest clients.
fn run(name: &str) {
    // One attack at a time: they would disturb each other.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);

    let world = World::new();
    let mut recording = world.consumer();
    recording.enable_tracing(config(), None).expect("enabled");
    recording.flush(LIMIT).expect("a flush");

    // An honest program writes a sample, and waits until it is read.
    let stream = hello(&heap_socket(world.folder.path()), HELLO_EXTENDED, &OWN);
    let stream = stream.expect("it listens");
    let ring = granted(&stream).expect("a session");
    let writer = Writer::new(Mapping::new(ring.as_raw_fd()).expect("a ring"));
    let empty = writer.free();
    let mut sequence = 0;
    let program = Honest::start(move || {
        sequence += 1;
        let bytes = match sequence % 2 {
            1 => malloc(sequence, 0, &[]),
            _ => free(sequence, (sequence - 1) * 16),
        };
        while !offer(&writer, &stream, &bytes) {}
        let _ = rustix::io::write(&stream, b"x");
        while writer.free() < empty {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let consumer = Honest::start(move || {
        recording.flush(LIMIT).expect("a flush");
    });
    let clients = vec![("program!", program), ("consumer!", consumer)];
    measure(name, &world.profiler, KEPT_MIB, clients, || {
        let time = attack::time().as_millis().to_string();
        let mut command = this_program("attacker_main");
        command
            .env(FOLDER_VARIABLE, world.folder.path())
            .env(ATTACK_VARIABLE, name)
            .env(TIME_VARIABLE, time);
        if let Some(mut attacker) = Process::of_user(command, NOBODY) {
            assert!(
                attacker.0.wait().expect("a child").success(),
                "an attacker failed"
            );
        }
    });
}

#[test]
fn heap_018_a_ring_that_is_written_after_its_end() {
    run("endless_rings");
}

#[test]
fn heap_018_operations_that_wait_for_ever() {
    run("parked_frees");
}

#[test]
fn heap_018_allocations_that_stay_live() {
    run("live_allocations");
}

#[test]
fn heap_018_as_many_clients_as_there_can_be() {
    run("many_clients");
}
