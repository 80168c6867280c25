//! Test of a program that exits: its packets are recorded or counted as lost.

use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ferretto::{DataSource, Instance};
use ferretto_client::Consumer;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop_trace};
use ferretto_trace::events::read_events;

/// The environment variable that tells the recorded process what to do.
const PROGRAM: &str = "FERRETTO_TEST_PROGRAM";

/// More than a chunk of shared memory, so that the length is patched after the chunk was released.
const LONG: usize = 20_000;

/// More packets than the memory holds.
const FLOOD: usize = 5_000;

const HOLD: &str = "test.hold";

/// Blocks the library's thread until the program is about to end, so that no chunks are committed
/// before.
struct Hold {
    reached: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl DataSource for Hold {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _: &ferretto::proto::DataSourceConfig) {}

    fn start(&self, _: &Instance<Self>) {
        self.reached.send(()).unwrap();
        self.go_on.lock().unwrap().recv_timeout(LIMIT).unwrap();
    }
}

/// Runs the recorded process, which exits in the middle of its work.
fn program(what: &str) -> ! {
    let options = || ferretto::Options::new().memory_kb(64);
    // Later registrations do not wait.
    options().wait(Duration::ZERO).init().unwrap();
    options().wait(LIMIT).init().unwrap();
    let ((reached, is_reached), (go_on, may_go_on)) = (channel(), channel());
    let go_on_later = Mutex::new(may_go_on);
    let hold = Hold {
        reached,
        go_on: go_on_later,
    };
    ferretto::register_data_source(HOLD, hold).unwrap();
    is_reached.recv_timeout(LIMIT).unwrap();
    match what.split_once(' ') {
        Some(("flood", length)) => {
            let text = "x".repeat(length.parse().unwrap());
            for _ in 0..FLOOD {
                ferretto::instant!("exit", "flood", text = text.as_str());
            }
        }
        Some(("long", "main")) => long(),
        Some(("long", _)) => {
            let (done, is_done) = channel();
            std::thread::spawn(move || {
                long();
                done.send(()).unwrap();
                loop {
                    std::thread::park();
                }
            });
            is_done.recv().unwrap();
        }
        _ => panic!("no such program"),
    }
    go_on.send(()).unwrap();
    std::process::exit(0);
}

fn long() {
    ferretto::instant!("exit", "long", text = "x".repeat(LONG).as_str());
}

/// Records the process that runs `what`.
fn record(what: &str) -> Vec<u8> {
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(
        &mut consumer,
        config(vec![source("track_event", None), source(HOLD, None)]),
    );
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "exit::packets_arrive_or_are_counted_as_lost"])
        .env(PROGRAM, what)
        .env("PERFETTO_PRODUCER_SOCK_NAME", service.producers.to_string())
        .status()
        .unwrap();
    assert!(status.success());
    stop_trace(&mut consumer)
}

#[test]
fn packets_arrive_or_are_counted_as_lost() {
    ferretto_testing::own_process!();
    if let Ok(what) = std::env::var(PROGRAM) {
        program(&what);
    }
    for thread in ["main", "other"] {
        for _ in 0..3 {
            let trace = record(&format!("long {thread}"));
            let events = read_events(&*trace).unwrap();
            assert_eq!(events.events.len(), 1, "{thread}: {:?}", events.problems);
            assert!(trace.len() > LONG);
        }
    }
    for length in 0..8 {
        let trace = record(&format!("flood {length}"));
        let count = read_events(&*trace).unwrap().events.len();
        let summary = ferretto_trace::summarize(&*trace).unwrap();
        assert!(count > 0);
        assert_eq!(
            count == FLOOD,
            summary.losses.is_empty(),
            "{count}: {summary:?}"
        );
    }
}
