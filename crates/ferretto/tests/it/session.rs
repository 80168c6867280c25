//! Tests of recordings that are controlled from inside the recorded program.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ferretto::Backends;
use ferretto::proto::TraceConfig;
use ferretto::session::{
    Backend, Buffer, RecordingConfig, Session, SessionError, SessionEvent, TrackEvents,
};
use ferretto_testing::sdk::{LIMIT, Service};
use ferretto_wire::Fields;

/// Returns the service that all tests share, with this process as producer.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let service = Service::start();
        ferretto::Options::new()
            .backends(Backends::SYSTEM | Backends::IN_PROCESS)
            .address(service.producers.clone())
            .wait(LIMIT)
            .init()
            .unwrap();
        service
    })
}

/// Runs a test with sessions of an external service and of the in-process service. One test at a
/// time: a service allows five sessions per user.
fn each(test: impl Fn(&dyn Fn() -> Session)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let system = Backend::At(service().consumers.clone());
    for backend in [system, Backend::InProcess] {
        test(&|| Session::open(backend.clone()).unwrap());
    }
}

/// Returns a config with the track events of one category.
fn only(category: &str) -> RecordingConfig {
    RecordingConfig::new().track_events(TrackEvents::only(&[category]))
}

/// Returns the packets of a trace file; panics if it is malformed.
fn packets(trace: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    for field in Fields::new(trace).map(Result::unwrap) {
        assert_eq!(field.number, 1);
        packets.push(field.as_bytes().unwrap());
    }
    packets
}

/// Returns the names of the interned track events, in order.
fn names(trace: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for packet in packets(trace) {
        let interned = Fields::find(12, packet).and_then(|field| field.as_message());
        for entry in interned.into_iter().flatten().map(Result::unwrap) {
            if entry.number == 2 {
                let name = Fields::find(2, entry.as_bytes().unwrap()).unwrap();
                names.push(name.as_str_lossy().unwrap().into_owned());
            }
        }
    }
    names
}

/// Flushes and reads the available packets.
fn flush_and_read(session: &Session) -> Vec<u8> {
    session.flush(LIMIT).wait().unwrap();
    session.read(LIMIT).wait().unwrap()
}

fn reason(error: &SessionError) -> &str {
    match error {
        SessionError::Failed { reason }
        | SessionError::Refused { reason, .. }
        | SessionError::Disconnected { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sdk_023_an_empty_session_starts_and_a_bad_one_says_why_not() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(RecordingConfig::new());
        session.start(LIMIT).wait().unwrap();
        session.stop(LIMIT).wait().unwrap();
        assert!(!packets(&session.read(LIMIT).wait().unwrap()).is_empty());

        // A config without buffers whose data source uses the second buffer.
        let mut config = RecordingConfig::new().data_source_named("track_event");
        config.message_mut().data_sources[0]
            .config
            .get_or_insert_default()
            .target_buffer = Some(7);
        session.set_up(config);
        let error = session.start(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::Failed { .. }), "{error:?}");
        assert!(!reason(&error).is_empty());
        let error = session.stop(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::Failed { .. }), "{error:?}");
        // The session can be used again.
        session.set_up(only("sdk23"));
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("sdk23", "after the failure");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        let trace = session.read(LIMIT).wait().unwrap();
        assert_eq!(names(&trace), ["after the failure"]);
    });
}

#[test]
fn sdk_025_start_and_stop_without_a_config_are_errors() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        let error = session.start(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::NotSetUp), "{error:?}");
        let error = session.stop(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
        let error = session.wait_for_end(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
        let error = session.read(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
        let error = session.stats(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
        // Stopping clears the config, and completes at once the second time.
        session.set_up(RecordingConfig::new());
        session.start(LIMIT).wait().unwrap();
        let error = session.start(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::AlreadyStarted), "{error:?}");
        session.stop(LIMIT).wait().unwrap();
        session.stop(LIMIT).wait().unwrap();
        let error = session.start(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::NotSetUp), "{error:?}");
    });
}

#[test]
fn sdk_026_reads_yield_whole_packets_and_each_only_once() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("sdk26"));
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("sdk26", "first");
        assert!(ferretto::flush(LIMIT));
        assert_eq!(names(&flush_and_read(&session)), ["first"]);
        ferretto::instant!("sdk26", "second");
        assert!(ferretto::flush(LIMIT));
        assert_eq!(names(&flush_and_read(&session)), ["second"]);
        // Two simultaneous reads are served in order; every packet is read once.
        ferretto::instant!("sdk26", "third");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        let (one, another) = (session.read(LIMIT), session.read(LIMIT));
        let mut both = one.wait().unwrap();
        both.extend(another.wait().unwrap());
        assert_eq!(names(&both), ["third"]);
        assert!(names(&session.read(LIMIT).wait().unwrap()).is_empty());
    });
}

#[test]
fn packets_of_an_abandoned_read_come_with_the_next_read() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("unread"));
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("unread", "kept");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        drop(session.read(LIMIT));
        // The same for a completed read whose result is not taken.
        let finished = session.read(LIMIT);
        session.stats(LIMIT).wait().unwrap();
        drop(finished);
        assert_eq!(names(&session.read(LIMIT).wait().unwrap()), ["kept"]);
    });
}

#[test]
fn sdk_027_flush_before_the_start_or_after_the_end_is_an_error() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(RecordingConfig::new());
        let error = session.flush(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
        session.start(LIMIT).wait().unwrap();
        session.flush(LIMIT).wait().unwrap();
        session.stop(LIMIT).wait().unwrap();
        let error = session.flush(LIMIT).wait().unwrap_err();
        assert!(
            matches!(error, SessionError::NotRunning { .. }),
            "{error:?}"
        );
    });
}

#[test]
fn sdk_028_a_stop_before_the_connection_stands_ends_the_session_after_it_starts() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("sdk28"));
        let started = session.start(LIMIT);
        session.stop(LIMIT).wait().unwrap();
        started.wait().unwrap();
        assert!(!packets(&session.read(LIMIT).wait().unwrap()).is_empty());
    });
}

#[test]
fn sdk_029_a_copy_is_readable_and_an_unknown_name_an_error() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("sdk29").unique_name("sdk29"));
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("sdk29", "copied");
        assert!(ferretto::flush(LIMIT));

        let copy = open();
        let cloned = copy.clone_named("sdk29", LIMIT).wait().unwrap();
        assert_ne!(cloned.uuid, (0, 0));
        assert_eq!(names(&copy.read(LIMIT).wait().unwrap()), ["copied"]);
        // The original still has its packets.
        assert_eq!(names(&flush_and_read(&session)), ["copied"]);

        let error = open()
            .clone_named("no such name", LIMIT)
            .wait()
            .unwrap_err();
        assert!(matches!(error, SessionError::Refused { .. }), "{error:?}");
        assert!(!reason(&error).is_empty());
    });
}

#[test]
fn events_are_reported() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("observed"));
        session.start(LIMIT).wait().unwrap();
        let mut seen = Vec::new();
        while !matches!(seen.last(), Some(SessionEvent::Ended { .. })) {
            // The event of an abandoned call is not lost.
            drop(session.next_event(LIMIT));
            let event = session.next_event(LIMIT).wait().unwrap();
            if event == SessionEvent::AllStarted {
                session.stop(LIMIT).wait().unwrap();
            }
            seen.push(event);
        }
        assert!(seen.contains(&SessionEvent::AllStarted));
        let is_recording = |event: &&SessionEvent| matches!(event, SessionEvent::Instance { data_source, is_recording: true, .. } if data_source == "track_event");
        assert_eq!(seen.iter().filter(is_recording).count(), 1, "{seen:?}");
        session.wait_for_end(LIMIT).wait().unwrap();
    });
}

#[test]
fn the_service_can_be_queried() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(
            RecordingConfig::new()
                .buffer(Buffer::discard(64))
                .buffer(Buffer::ring(128)),
        );
        session.start(LIMIT).wait().unwrap();
        let stats = session.stats(LIMIT).wait().unwrap();
        let sizes: Vec<_> = stats
            .buffer_stats
            .iter()
            .map(|buffer| buffer.buffer_size)
            .collect();
        assert_eq!(sizes, [Some(64 << 10), Some(128 << 10)]);
        let state = session.service_state(LIMIT).wait().unwrap();
        assert!(!state.data_sources.is_empty());
        session.capabilities(LIMIT).wait().unwrap();
        let config = TraceConfig::clone(RecordingConfig::new().message());
        session.change_config(config, LIMIT).wait().unwrap();
    });
}

#[test]
fn a_deferred_session_is_created_when_set_up() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("deferred").unique_name("deferred").deferred_start());
        // Another session with the same name is refused, so it exists.
        let other = open();
        session.capabilities(LIMIT).wait().unwrap();
        other.set_up(only("deferred").unique_name("deferred"));
        let error = other.start(LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::Failed { .. }), "{error:?}");
        ferretto::instant!("deferred", "too early");
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("deferred", "in time");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        assert_eq!(names(&session.read(LIMIT).wait().unwrap()), ["in time"]);
    });
}

#[test]
fn a_trace_is_written_as_it_is_read_or_by_the_service() {
    ferretto_testing::own_process!();
    each(|open| {
        let session = open();
        session.set_up(only("written"));
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("written", "into");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        let trace = session.read_into(Vec::new(), LIMIT).wait().unwrap();
        assert_eq!(names(&trace), ["into"]);

        // A failing writer.
        session.set_up(only("written"));
        session.start(LIMIT).wait().unwrap();
        session.stop(LIMIT).wait().unwrap();
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let error = session.read_into(full, LIMIT).wait().unwrap_err();
        assert!(matches!(error, SessionError::Write(_)), "{error:?}");

        // A trace that the service writes.
        let file = tempfile();
        session.set_up(
            only("written").write_into(file.try_clone().unwrap(), Duration::from_secs(3600)),
        );
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("written", "by the service");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        let mut trace = vec![0; file.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut trace, 0).unwrap();
        assert_eq!(names(&trace), ["by the service"]);
        // Packets in the file are not available elsewhere.
        assert!(names(&session.read(LIMIT).wait().unwrap()).is_empty());
    });
}

/// Returns an unnamed file.
fn tempfile() -> std::fs::File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    rustix::fs::memfd_create("trace", flags).unwrap().into()
}

#[test]
fn a_callback_gets_the_answer_and_may_drop_the_session() {
    ferretto_testing::own_process!();
    each(|open| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let session = open();
        session.set_up(RecordingConfig::new());
        let call = session.start(LIMIT);
        call.then(move |result| {
            drop(session);
            sender.send(result).unwrap();
        });
        receiver.recv_timeout(LIMIT).unwrap().unwrap();
        // An answer that is already available.
        let session = open();
        let call = session.stop(LIMIT);
        session.capabilities(LIMIT).wait().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        call.then(move |result| sender.send(result).unwrap());
        assert!(receiver.recv_timeout(LIMIT).unwrap().is_err());
    });
}

#[test]
fn complete_configs_are_accepted() {
    ferretto_testing::own_process!();
    each(|open| {
        use ferretto::proto::Message as _;
        let message = only("whole")
            .buffer(Buffer::ring(64))
            .message()
            .encode_to_vec();
        let session = open();
        session.set_up(RecordingConfig::decode(&message).unwrap());
        session.start(LIMIT).wait().unwrap();
        ferretto::instant!("whole", "message");
        assert!(ferretto::flush(LIMIT));
        session.stop(LIMIT).wait().unwrap();
        assert_eq!(names(&session.read(LIMIT).wait().unwrap()), ["message"]);
        let error = RecordingConfig::decode(b"\x0a\xff").unwrap_err();
        assert!(matches!(error, SessionError::BadConfig), "{error:?}");
    });
}
