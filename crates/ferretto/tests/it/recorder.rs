//! Tests of in-process recordings made by `record`, `Recorder` and `FlightRecorder`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferretto::session::{Backend, Buffer, RecordingConfig, Session, SessionError, TrackEvents};
use ferretto::testing::Trace;
use ferretto::{FlightRecorder, Recorder};
use ferretto_wire::Fields;

const LIMIT: Duration = Duration::from_secs(30);

/// One test at a time: a service allows five sessions per user.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn only(category: &str) -> RecordingConfig {
    RecordingConfig::new().track_events(TrackEvents::only(&[category]))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the names of slices and instants in a file.
fn names(path: &PathBuf) -> Vec<String> {
    let trace = Trace::read(&std::fs::read(path).unwrap());
    let nodes = trace.nodes().filter(|node| node.value.is_none());
    nodes.map(|node| node.name.clone()).collect()
}

#[test]
fn a_file_is_recorded_until_the_recording_is_dropped() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let folder = folder();
    let path = folder.path().join("trace");
    ferretto::instant!("file", "before");
    let recording = ferretto::record(&path).unwrap();
    ferretto::instant!("file", "meanwhile");
    drop(recording);
    ferretto::instant!("file", "after");
    let names: Vec<_> = names(&path)
        .into_iter()
        .filter(|name| ["before", "meanwhile", "after"].contains(&name.as_str()))
        .collect();
    assert_eq!(names, ["meanwhile"]);
}

/// A writer whose content can be inspected.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn packets_are_written_periodically_and_at_the_end() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let written = Shared::default();
    let recording = Recorder::new()
        .config(only("live"))
        .period(Duration::from_millis(1))
        .into_writer(written.clone())
        .unwrap();
    ferretto::instant!("live", "first");
    let trace = || Trace::read(&written.0.lock().unwrap());
    let deadline = Instant::now() + LIMIT;
    while trace().find("first").is_none() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    ferretto::instant!("live", "last");
    recording.finish().unwrap();
    let trace = trace();
    let names: Vec<_> = trace.instants().map(|node| &node.name).collect();
    assert_eq!(names, ["first", "last"]);
}

#[test]
fn an_error_of_the_writer_is_reported_at_the_end() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let recording = Recorder::new()
        .config(only("failing"))
        .into_writer(full.unwrap())
        .unwrap();
    ferretto::instant!("failing", "event");
    let error = recording.finish().unwrap_err();
    assert!(matches!(error, SessionError::Write(_)), "{error:?}");
    let error = ferretto::record("/no/such/folder/trace").unwrap_err();
    assert!(matches!(error, SessionError::Write(_)), "{error:?}");
}

#[test]
fn a_flight_recorder_can_be_dumped_repeatedly() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let recorder = FlightRecorder::options()
        .track_events(TrackEvents::only(&["flight"]))
        .start()
        .unwrap();
    let _slice = ferretto::slice!("flight", "going on");
    let dump = || Trace::read(&recorder.dump_into(Vec::new()).unwrap());
    ferretto::instant!("flight", "first");
    assert_eq!(dump().find("going on").unwrap().children.len(), 1);
    ferretto::instant!("flight", "second");
    assert_eq!(dump().find("going on").unwrap().children.len(), 2);
    let folder = folder();
    let path = folder.path().join("trace");
    recorder.dump(&path).unwrap();
    assert_eq!(names(&path), ["going on", "first", "second"]);
    let files = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(files.count(), 1, "nothing unfinished is left");
    recorder.dump(folder.path().join("no/such")).unwrap_err();
}

#[test]
fn a_wrapped_flight_recorder_stays_readable() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let recorder = FlightRecorder::options()
        .track_events(TrackEvents::only(&["wrap"]))
        .size_kb(64)
        .repeat_every(Duration::from_millis(1))
        .start()
        .unwrap();
    let _slice = ferretto::slice!("wrap", "the oldest");
    let deadline = Instant::now() + LIMIT;
    let mut number = 0_u64;
    loop {
        for _ in 0..1000 {
            ferretto::instant!("wrap", "an event with a name", argument = number);
            number += 1;
        }
        let trace = Trace::read(&recorder.dump_into(Vec::new()).unwrap());
        let last = trace.instants().last();
        let is_complete = last.is_some_and(|node| {
            node.name == "an event with a name"
                && node.categories == ["wrap"]
                && node.argument("argument") == Some(&(number - 1).into())
        });
        let has_thread = trace.to_string().starts_with("thread ")
            || trace
                .to_string()
                .starts_with("(some events are lost)\nthread ");
        let has_wrapped = trace.find("the oldest").is_none();
        // The service asks for cleared state every millisecond; the threads see the request some
        // time later.
        if is_complete && has_thread && has_wrapped {
            break;
        }
        assert!(Instant::now() < deadline, "{number} events:\n{trace}");
    }
}

#[test]
fn a_session_that_would_record_nothing_is_an_error() {
    ferretto_testing::own_process!();
    let open = || Session::open(Backend::InProcess);
    let error = open().unwrap_err();
    assert!(matches!(error, SessionError::NotInitialised), "{error:?}");
    assert!(error.to_string().contains("Backends::IN_PROCESS"));
    // Nor does a process that others record.
    ferretto::init().unwrap();
    assert!(matches!(open().unwrap_err(), SessionError::NotInitialised));
    let options = ferretto::Options::new().backends(ferretto::Backends::IN_PROCESS);
    options.wait(LIMIT).init().unwrap();
    let session = open().unwrap();
    session.set_up(only("now"));
    session.start(LIMIT).wait().unwrap();
    ferretto::instant!("now", "recorded");
    ferretto::flush(LIMIT);
    session.stop(LIMIT).wait().unwrap();
    let trace = Trace::read(&session.read(LIMIT).wait().unwrap());
    assert_eq!(trace.instants().count(), 1);
}

/// Files of root in a folder of everybody, as far as other users can prepare them.
#[test]
fn files_of_recordings_replace_and_do_not_follow() {
    ferretto_testing::own_process!();
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
    let _turn = turn();
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let victim = path("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let shared = path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let out = shared.join("out");
    let flight = FlightRecorder::options().start().unwrap();
    let record = || ferretto::record(&out).map(|recording| drop(recording.finish().unwrap()));
    let dump = || flight.dump(&out);
    let ways: [&dyn Fn() -> Result<(), SessionError>; 2] = [&record, &dump];
    for write in ways {
        // Other names of a file keep its contents.
        std::fs::hard_link(&victim, &out).unwrap();
        write().unwrap();
        let found = out.symlink_metadata().unwrap();
        assert!(found.is_file() && found.mode() & 0o777 == 0o600);
        assert!(Trace::read(&std::fs::read(&out).unwrap()).nodes().count() == 0);
        // The program's own links are followed.
        std::fs::rename(&out, path("own")).unwrap();
        symlink(path("own"), &out).unwrap();
        let before = path("own").metadata().unwrap().ino();
        write().unwrap();
        assert!(out.symlink_metadata().unwrap().is_symlink());
        assert_ne!(path("own").metadata().unwrap().ino(), before);
        std::fs::remove_file(&out).unwrap();
        if rustix::process::geteuid().is_root() {
            symlink(&victim, &out).unwrap();
            lchown(&out, Some(65_534), Some(65_534)).unwrap();
            let error = write().unwrap_err();
            assert!(
                error.to_string().contains("link of another user"),
                "{error}"
            );
            std::fs::remove_file(&out).unwrap();
        } else {
            println!("skipped: only root can create files of other users");
        }
        // Devices are written directly.
        ferretto::record("/dev/null").unwrap().finish().unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        let left = std::fs::read_dir(&shared).unwrap().count();
        assert_eq!(left, 0, "no temporary files remain");
    }
}

#[test]
fn a_wrapped_ring_is_readable_without_periodic_clears() {
    ferretto_testing::own_process!();
    let _turn = turn();
    ferretto::Options::new()
        .backends(ferretto::Backends::IN_PROCESS)
        .wait(LIMIT)
        .init()
        .unwrap();
    let session = Session::open(Backend::InProcess).unwrap();
    session.set_up(only("around").buffer(Buffer::ring(512)));
    session.start(LIMIT).wait().unwrap();
    for number in 0_u64..100_000 {
        ferretto::instant!("around", "an event with a name", argument = number);
    }
    session.stop(LIMIT).wait().unwrap();
    let trace = session.read(LIMIT).wait().unwrap();
    let packets = Fields::new(&trace).filter_map(|packet| packet.ok()?.as_bytes());
    let events = packets.filter(|packet| Fields::find(11, packet).is_some());
    let (there, trace) = (events.count(), Trace::read(&trace));
    let readable = trace.instants().count();
    assert!(
        there > 10_000 && there < 100_000,
        "the ring is full: {there}"
    );
    // All but at most the first 64 KiB of the remaining data.
    assert!(readable * 8 >= there * 7, "{readable} of {there}");
}

#[test]
fn a_panic_leaves_a_trace() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let folder = folder();
    let path = folder.path().join("panic");
    let recorder = FlightRecorder::options()
        .track_events(TrackEvents::only(&["panic"]))
        .on_panic(&path)
        .start()
        .unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for message in ["one", "another"] {
        let thread = std::thread::spawn(move || {
            let _slice = ferretto::slice!("panic", "outer");
            ferretto::instant!("panic", message);
            panic!("a panic for the test");
        });
        thread.join().unwrap_err();
        // The trace exists when the thread has ended, and contains its open slice.
        let trace = Trace::read(&std::fs::read(&path).unwrap());
        let outer = trace.nodes().filter(|node| node.end.is_none());
        assert_eq!(outer.count(), 1, "{trace}");
        seen.lock().unwrap().extend(names(&path));
    }
    assert_eq!(
        *seen.lock().unwrap(),
        ["outer", "one", "outer", "one", "outer", "another"]
    );
    drop(recorder);
    std::fs::remove_file(&path).unwrap();
    std::thread::spawn(|| panic!("nobody records this one"))
        .join()
        .unwrap_err();
    assert!(!path.exists());
}

#[test]
fn a_trigger_leaves_a_trace() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let folder = folder();
    let path = folder.path().join("trigger");
    let recorder = FlightRecorder::options()
        .track_events(TrackEvents::only(&["trigger"]))
        .on_trigger("recorder-test", &path)
        .start()
        .unwrap();
    for round in 0..2 {
        ferretto::instant!("trigger", "round", number = round);
        assert!(ferretto::flush(LIMIT));
        assert!(ferretto::activate_triggers(
            &["recorder-test"],
            Duration::ZERO
        ));
        let deadline = Instant::now() + LIMIT;
        while !path.exists() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(names(&path).len(), round + 1);
        std::fs::remove_file(&path).unwrap();
    }
    drop(recorder);
}

#[test]
fn the_best_available_service_records() {
    ferretto_testing::own_process!();
    let _turn = turn();
    let start = || {
        let session = Session::open(Backend::Best).unwrap();
        session.set_up(RecordingConfig::new());
        session.start(LIMIT).wait().map(|()| session)
    };
    // Without a service of the machine, and not initialised, there is none.
    if let Err(error) = start() {
        assert!(
            matches!(error, SessionError::Disconnected { .. }),
            "{error:?}"
        );
    }
    let options = ferretto::Options::new().backends(ferretto::Backends::IN_PROCESS);
    options.wait(LIMIT).init().unwrap();
    start().unwrap().stop(LIMIT).wait().unwrap();
}
