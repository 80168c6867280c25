//! Test that dropped sessions do not leak.

use std::time::{Duration, Instant};

use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::{Backends, FlightRecorder};

const LIMIT: Duration = Duration::from_secs(30);

/// Counts the threads and descriptors of the process.
fn holdings() -> (usize, usize) {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Drops sessions in all states.
fn sessions(number: u32) {
    let open = || Session::open(Backend::InProcess).unwrap();
    let set_up = |session: &Session| {
        let events = TrackEvents::only(&["leaks"]);
        session.set_up(RecordingConfig::new().track_events(events));
    };
    drop(open());
    let session = open();
    set_up(&session);
    drop(session);
    let session = open();
    set_up(&session);
    let start = session.start(LIMIT);
    drop(session);
    drop(start);
    let session = open();
    set_up(&session);
    session.start(LIMIT).wait().unwrap();
    ferretto::instant!("leaks", "recorded", number = number);
    let calls = (session.next_event(LIMIT), session.read(LIMIT));
    drop(session);
    drop(calls);
    let session = open();
    set_up(&session);
    session.start(LIMIT).wait().unwrap();
    let stop = session.stop(LIMIT);
    drop(session);
    // The recording may have started or not.
    drop(stop.wait());
    let recorder = FlightRecorder::options().start().unwrap();
    recorder.dump_into(Vec::new()).unwrap();
    // The service counts sessions until it notices their end.
    let session = open();
    drop(recorder);
    let deadline = Instant::now() + LIMIT;
    loop {
        let state = session.service_state(LIMIT).wait().unwrap();
        if state.num_sessions == Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "{state:?}");
    }
}

// One test, since it checks the whole process.
#[test]
fn dropped_sessions_do_not_leak() {
    ferretto_testing::own_process!();
    let options = ferretto::Options::new().backends(Backends::IN_PROCESS);
    options.wait(LIMIT).init().unwrap();
    sessions(0);
    let deadline = Instant::now() + LIMIT;
    // Threads without work end soon. This also waits for the remains of the first round.
    let await_holdings = |before: (usize, usize)| loop {
        let now = holdings();
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        assert!(Instant::now() < deadline, "{now:?}, not {before:?}");
        std::thread::yield_now();
    };
    let quiet = || {
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        !names
            .into_iter()
            .any(|name| name.starts_with("ferretto-sessio"))
    };
    while !quiet() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let before = holdings();
    for number in 1..20 {
        sessions(number);
    }
    await_holdings(before);
}
