//! Sessions leave nothing behind, whenever they are dropped.

use std::time::{Duration, Instant};

use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::{Backends, FlightRecorder};

const LIMIT: Duration = Duration::from_secs(30);

/// Counts the threads and descriptors that the process has.
fn holdings() -> (usize, usize) {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Sessions in all states, dropped.
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
    // It may have been made, or not.
    drop(stop.wait());
    let recorder = FlightRecorder::options().start().unwrap();
    recorder.dump_into(Vec::new()).unwrap();
    // Sessions that the service has not noticed the end of count as such.
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

// One test, since it looks at the whole process.
#[test]
fn nothing_is_left_of_sessions() {
    let options = ferretto::Options::new().backends(Backends::IN_PROCESS);
    options.wait(LIMIT).init().unwrap();
    sessions(0);
    let deadline = Instant::now() + LIMIT;
    // Threads that have nothing left to do are about to end. Remains of the first round are gone,
    // too.
    let settle = |before: (usize, usize)| loop {
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
    settle(before);
}
